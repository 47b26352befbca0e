// gzip: what Python's gzip wrote is read; damage, missing bytes and what does not belong there are Errors.
#include "reprise/io/gzip.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using reprise::testing::expect_error;

const std::string text = "trousers, trousers and trousers\n";

// gzip.compress(text, mtime=0) of Python 3.11
std::string file_of_python() {
  const char bytes[] =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x29\xca\x2f\x2d\x4e\x2d\x2a\xd6\x51\x28\x81\xb2\x14\x12"
      "\xf3\x52"
      "\xe0\x1c\x2e\x00\x67\x71\xb4\xb0\x20\x00\x00\x00";
  return std::string(bytes, sizeof bytes - 1);
}

TEST(Gzip, ReadsWhatPythonWrote) {
  EXPECT_EQ(gunzip(file_of_python(), "x.gz", 1000), text);
  EXPECT_EQ(gunzip(file_of_python(), "x.gz", text.size()), text);
  EXPECT_EQ(gunzip_front(file_of_python(), "x.gz", 8), "trousers");
  EXPECT_EQ(gunzip_front(file_of_python(), "x.gz", 1000), text);
}

TEST(Gzip, ReadsMembersOneAfterTheOther) {
  EXPECT_EQ(gunzip(file_of_python() + file_of_python(), "x.gz", 1000), text + text);
}

TEST(Gzip, ComesBack) {
  for (size_t size : {0u, 1u, 7u, 100000u}) {
    std::string bytes(size, 'a');
    for (size_t i = 0; i < size; i += 3) bytes[i] = char(i * i);
    EXPECT_EQ(gunzip(gzip(bytes), "x.gz", size), bytes) << size;
  }
}

TEST(Gzip, MissingBytesAreAnError) {
  std::string file = file_of_python();
  for (size_t size = 0; size < file.size(); ++size)
    expect_error([&] { gunzip(file.substr(0, size), "x.gz", 1000); }, "gzip: x.gz: ends early",
                 std::to_string(size));
}

TEST(Gzip, BytesBehindTheEndAreAnError) {
  expect_error([&] { gunzip(file_of_python() + "!", "x.gz", 1000); },
               "gzip: x.gz: wanted 39 bytes, 40 are there: what follows the end is not gzip");
}

TEST(Gzip, MoreThanWasAskedForIsAnError) {
  expect_error([&] { gunzip(file_of_python(), "x.gz", text.size() - 1); },
               "gzip: x.gz: holds more than 31 bytes");
}

TEST(Gzip, ChangedBytesAreAnError) {
  // Bytes 4 to 9 (time, flags of speed, system) are free; all others are the data or are checked.
  for (size_t at : {2u, 12u, 20u, 31u, 36u}) {
    std::string file = file_of_python();
    file[at] = char(file[at] ^ 0x55);
    expect_error([&] { gunzip(file, "x.gz", 1000); }, "gzip: x.gz: ");
  }
}

}  // namespace
}  // namespace reprise::io
