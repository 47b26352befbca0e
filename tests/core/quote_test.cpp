// Text from outside in messages and on terminals.
#include "reprise/core/quote.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(Quote, PrintableKeepsTextAndEscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("plain \xc3\xa4\xe4\xbd\xa0\xf0\x9f\x98\x80\n\tnext"),
            "plain \xc3\xa4\xe4\xbd\xa0\xf0\x9f\x98\x80\n\tnext");
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[31m\r\b\x7f"), "\\x1b]0;title\\x07\\x1b[31m\\x0d\\x08\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u{9b}31m")
      << "the one-character form of ESC [";
  EXPECT_EQ(printable("a\xe2\x80\xaetxt\xe2\x81\xa6\xd8\x9c"), "a\\u{202e}txt\\u{2066}\\u{61c}");
  EXPECT_EQ(printable("\xff\xc3(\xed\xa0\x80"), "\\xff\\xc3(\\xed\\xa0\\x80") << "not UTF-8";
}

TEST(Quote, AQuoteIsOneLineOfBoundedLength) {
  EXPECT_EQ(quote("h.0\"\\w"), "\"h.0\\\"\\\\w\"");
  EXPECT_EQ(quote("a\nb\tc\x1b"), "\"a\\nb\\tc\\x1b\"");
  EXPECT_EQ(quote(std::string(2000, 'x'), 5), "\"xxxxx\"... (2000 bytes)");
  EXPECT_EQ(quote("xxxxx", 5), "\"xxxxx\"");
  EXPECT_EQ(quote("\xc3\xa4\xc3\xa4\xc3\xa4", 3), "\"\xc3\xa4\xc3\xa4\"... (6 bytes)")
      << "cut between characters";
  EXPECT_LT(quote(std::string(10'000'000, '\x1b')).size(), 200u);
}

}  // namespace
}  // namespace reprise
