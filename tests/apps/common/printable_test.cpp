// What a terminal is not given as it is.
#include "reprise/apps/common/printable.h"

#include <gtest/gtest.h>

namespace reprise::apps {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "plain", "two\nlines\tand a tab", "Grüße, 世界 🙂"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsControlCharactersInsteadOfObeyingThem) {
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(printable(std::string("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
  EXPECT_EQ(printable("\u009b2J"), "\\u009b2J") << "the C1 form of escape [";
}

TEST(Printable, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xfe"
                      "b\xc3"),
            "a\\xff\\xfe"
            "b\\xc3");
}

}  // namespace
}  // namespace reprise::apps
