// IDX files: sizes and bytes, and what is wrong with a file that has others.
#include "reprise/io/arrays/idx.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using reprise::testing::expect_error;

std::string header(std::initializer_list<int> bytes) {
  std::string out;
  for (int byte : bytes) out += char(byte);
  return out;
}

TEST(Idx, HasSizesAndBytes) {
  IdxArray images = parse_idx(header({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3}) + "abcdef", "x", 3);
  EXPECT_EQ(images.shape, (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(images.bytes, "abcdef");
  IdxArray labels = parse_idx(header({0, 0, 8, 1, 0, 0, 1, 1}) + std::string(257, 'x'), "y", 1);
  EXPECT_EQ(labels.shape, std::vector<int64_t>{257});
}

TEST(Idx, IsWrittenAsItIsRead) {
  std::string file = header({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3}) + "abcdef";
  EXPECT_EQ(write_idx(parse_idx(file, "x", 3)), file);
}

TEST(Idx, OtherFilesAreErrors) {
  expect_error([] { parse_idx("", "x", 1); }, "idx: x: wanted a header of 8 bytes, 0 are there");
  expect_error(
      [] {
        parse_idx(header({0, 0, 8, 3, 0, 0, 0, 2}), "x", 1);
      },
      "idx: x: starts with 2051, not with 2049");
  expect_error([] { parse_idx(header({0, 0, 13, 1, 0, 0, 0, 0}), "x", 1); }, "idx: x: starts with 3329");
}

TEST(Idx, SizesThatDoNotFitAreErrors) {
  std::string three = header({0, 0, 8, 1, 0, 0, 0, 3});
  expect_error([&] { parse_idx(three + "ab", "x", 1); }, "idx: x: wanted 11 bytes, 10 are there");
  expect_error([&] { parse_idx(three + "abcd", "x", 1); }, "idx: x: wanted 11 bytes, 12 are there");
  // 2^32 - 1 cubed is beyond 64 bits; 2^24 x 2^24 x 2^16 is 2^64 and must not wrap round to an empty file.
  expect_error(
      [] {
        parse_idx(header({0, 0, 8, 3}) + std::string(12, '\xff'), "x", 3);
      },
      "idx: x: its sizes multiply");
  expect_error(
      [] {
        parse_idx(header({0, 0, 8, 3, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0}), "x", 3);
      },
      "idx: x: its sizes multiply");
}

}  // namespace
}  // namespace reprise::io
