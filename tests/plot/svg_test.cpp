// SVG's elements: what stands in them cannot end them.
#include "reprise/plot/svg.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise::plot {
namespace {

TEST(Svg, EscapesTextAndTitles) {
  EXPECT_EQ(svg_text(1, 2.25, "a<b>\"&\x01", "x=\"y\""),
            "<text x=\"1.0\" y=\"2.2\" x=\"y\">a&lt;b&gt;&quot;&amp;</text>\n");
  EXPECT_EQ(svg_circle(0, 0, 1, "", "</title>"),
            "<circle cx=\"0.0\" cy=\"0.0\" r=\"1.0\" ><title>&lt;/title&gt;</title></circle>\n");
}

TEST(Svg, NumbersThatAreNotFiniteAreZero) {
  EXPECT_EQ(number(NAN), "0");
  EXPECT_EQ(number(-INFINITY, 3), "0");
  EXPECT_EQ(number(-1.25, 3), "-1.250");
}

}  // namespace
}  // namespace reprise::plot
