// UTF-8: the edges of each range, and every kind of ill-formed sequence.
#include "reprise/io/utf8.h"

#include <gtest/gtest.h>

#include "reprise/core/error.h"
#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using testing::expect_error;

TEST(Utf8, AcceptsTheEdgesOfEachRangeAndRoundTrips) {
  for (char32_t c : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(find_invalid_utf8(text), text.size()) << std::hex << uint32_t(c);
    size_t position = 0;
    EXPECT_EQ(next_code_point(text, position), c);
    EXPECT_EQ(position, text.size());
  }
}

TEST(Utf8, RejectsIllFormedSequences) {
  const char* ill_formed[] = {"\x80",              // a continuation alone
                              "\xC0\x80",          // overlong
                              "\xC1\xBF",          // overlong
                              "\xE0\x9F\xBF",      // overlong
                              "\xF0\x8F\xBF\xBF",  // overlong
                              "\xED\xA0\x80",      // surrogate
                              "\xF4\x90\x80\x80",  // past U+10FFFF
                              "\xF5\x80\x80\x80",
                              "\xFF",
                              "\xC3",
                              "\xE2\x82",
                              "\xF0\x9F\x98",
                              "\xE2(\xA1"};
  for (const char* bytes : ill_formed) {
    for (size_t before : {0, 1, 7, 8, 9}) {  // the eight-byte path must not step over one
      std::string text = std::string(before, 'a') + bytes;
      EXPECT_EQ(find_invalid_utf8(text), before) << "bytes " << bytes;
      EXPECT_EQ(find_invalid_utf8(text + "abcdefghijk"), before) << "bytes " << bytes;
    }
  }
}

TEST(Utf8, AnyBytesHaveAUtf8FormThatBringsThemBack) {
  EXPECT_EQ(bytes_as_utf8("runs/\xc3\xa4"), "runs/\xc3\xa4") << "UTF-8 stays as it is";
  EXPECT_EQ(bytes_as_utf8("a\xff"), "a\xee\xbf\xbf");
  std::string stand_in = "\xee\xbf\xbf";  // a path may hold the character that stands for a byte
  EXPECT_NE(bytes_as_utf8(stand_in), stand_in);
  for (const std::string& bytes :
       {std::string("a\xff"), stand_in, std::string("\xee\xbe"), std::string("\0\x80", 2),
        std::string("\xed\xa0\x80"), std::string("\xf0\x9f\x98\x80\xf0\x9f")}) {
    std::string text = bytes_as_utf8(bytes);
    EXPECT_EQ(find_invalid_utf8(text), text.size()) << text;
    EXPECT_EQ(bytes_from_utf8(text), bytes);
  }
  expect_error([&] { bytes_from_utf8("\xff"); }, "not UTF-8 at byte 0");
}

TEST(Utf8, DescribesACharacterWithoutObeyingIt) {
  EXPECT_EQ(describe_code_point(U'A'), "U+0041 'A'");
  EXPECT_EQ(describe_code_point(0x1B), "U+001B");
  EXPECT_EQ(describe_code_point(0x202E), "U+202E '\\u{202e}'");
}

}  // namespace
}  // namespace reprise::io
