// Images inside of SVG.
#include "reprise/plot/image_plot.h"

#include <gtest/gtest.h>

namespace reprise::plot {
namespace {

// RFC 4648, section 10.
TEST(Base64, HasTheRfcsTestVectors) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(DrawPictures, StandInRowsWithTheirCaptions) {
  std::vector<Picture> pictures(5, {.png = "p", .captions = {"a <b>"}});
  pictures[3].marked = true;
  std::string svg = draw_pictures(pictures, 3, 50);
  auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("href=\"data:image/png;base64,cA==\""), 5);
  EXPECT_EQ(count("a &lt;b&gt;"), 5);
  EXPECT_EQ(count("stroke=\"#cf4a4a\""), 1);
  EXPECT_EQ(count("<image x=\"14.0\""), 2);   // the first of each row
  EXPECT_EQ(count("<image x=\"142.0\""), 1);  // the third of the first row: 14 + 2 * (50 + 14)
}

}  // namespace
}  // namespace reprise::plot
