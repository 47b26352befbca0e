// NumPy's archives: bytes that numpy.savez_compressed 2.4 wrote, what is written here, and what is wrong with others.
#include "reprise/io/arrays/npz.h"

#include <gtest/gtest.h>

#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/weights.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::TempFolder;

class Npz : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_npz()) GTEST_SKIP() << "needs libzip";
  }

  TempFolder folder;
  const std::string path = folder / "a.npz";
};

// numpy.savez_compressed(path, a=numpy.arange(6, dtype="<f4").reshape(2, 3), **{"b.weight": numpy.full((1000,), 7, "<i8")})
const unsigned char compressed[] = {
    80,  75,  3,   4,   20,  0,   0,   0,   8,   0,   0,   0,   33,  0,   79,  233, 0,   42,  85,  0,   0,
    0,   152, 0,   0,   0,   5,   0,   20,  0,   97,  46,  110, 112, 121, 1,   0,   16,  0,   152, 0,   0,
    0,   0,   0,   0,   0,   85,  0,   0,   0,   0,   0,   0,   0,   155, 236, 23,  234, 27,  16,  201, 200,
    80,  198, 80,  173, 158, 146, 90,  156, 92,  164, 110, 165, 160, 110, 147, 102, 162, 174, 163, 160, 158,
    150, 95,  84,  82,  148, 152, 23,  159, 95,  148, 146, 10,  18,  119, 75,  204, 41,  78,  5,   138, 23,
    103, 36,  22,  164, 2,   249, 26,  70,  58,  10,  198, 154, 58,  10,  181, 10,  100, 3,   46,  6,   48,
    104, 176, 7,   18,  14,  64,  4,   196, 13,  64,  188, 192, 1,   0,   80,  75,  3,   4,   20,  0,   0,
    0,   8,   0,   0,   0,   33,  0,   62,  47,  251, 172, 116, 0,   0,   0,   192, 31,  0,   0,   12,  0,
    20,  0,   98,  46,  119, 101, 105, 103, 104, 116, 46,  110, 112, 121, 1,   0,   16,  0,   192, 31,  0,
    0,   0,   0,   0,   0,   116, 0,   0,   0,   0,   0,   0,   0,   237, 200, 177, 10,  131, 48,  24,  69,
    225, 56,  9,   125, 138, 108, 191, 133, 12,  113, 43,  210, 185, 155, 210, 165, 67,  39,  9,   26,  81,
    144, 42,  73,  113, 41,  62,  69,  95,  184, 74,  223, 160, 107, 207, 93,  62,  238, 121, 87,  183, 242,
    122, 79,  212, 162, 94,  210, 250, 216, 4,   41,  180, 156, 135, 147, 24,  45,  221, 20,  158, 193, 61,
    234, 41,  180, 126, 239, 23,  55,  70,  191, 245, 216, 187, 217, 111, 63,  203, 173, 181, 230, 104, 244,
    170, 127, 221, 33,  85,  223, 33,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,
    254, 179, 31,  80,  75,  1,   2,   20,  3,   20,  0,   0,   0,   8,   0,   0,   0,   33,  0,   79,  233,
    0,   42,  85,  0,   0,   0,   152, 0,   0,   0,   5,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   128, 1,   0,   0,   0,   0,   97,  46,  110, 112, 121, 80,  75,  1,   2,   20,  3,   20,  0,   0,
    0,   8,   0,   0,   0,   33,  0,   62,  47,  251, 172, 116, 0,   0,   0,   192, 31,  0,   0,   12,  0,
    0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   128, 1,   140, 0,   0,   0,   98,  46,  119, 101, 105,
    103, 104, 116, 46,  110, 112, 121, 80,  75,  5,   6,   0,   0,   0,   0,   2,   0,   2,   0,   109, 0,
    0,   0,   62,  1,   0,   0,   0,   0};

std::string golden() { return {reinterpret_cast<const char*>(compressed), sizeof(compressed)}; }

TEST_F(Npz, ReadsWhatNumpyWrote) {
  folder.write("a.npz", golden());
  const NamedArrays arrays = read_npz(path);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].first, "a");
  EXPECT_TRUE(same_bits(arrays[0].second, Tensor::from<float>({0, 1, 2, 3, 4, 5}, {2, 3})));
  EXPECT_EQ(arrays[1].first, "b.weight");
  EXPECT_TRUE(same_bits(arrays[1].second, Tensor::from(std::vector<int64_t>(1000, 7), {1000})));
  EXPECT_EQ(read_weights(path).tensors.size(), 2u);
}

TEST_F(Npz, ReadsWhatItWroteWhateverTheLayout) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), leaf = Tensor::from<double>({2.5}, {1});
  leaf.set_requires_grad();
  const NamedArrays written = {{"turned", x.transpose(0, 1)},
                               {"none", Tensor::zeros({0, 3}, DType::i32)},
                               {"number", Tensor::from<uint8_t>({7}, {})},
                               {"half/of it", x.to(DType::f16)},
                               {"leaf", leaf.sum({0}, true)},
                               {"ü", Tensor::from<int64_t>({-1}, {1})}};
  write_npz(path, written);
  const NamedArrays read = read_npz(path);
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].first, written[i].first);
    EXPECT_TRUE(same_bits(read[i].second, written[i].second.detach().contiguous())) << read[i].first;
  }
  const std::string bytes = read_file(path);
  write_npz(path, written);
  EXPECT_EQ(read_file(path), bytes);
  write_npz(path, {});
  EXPECT_TRUE(read_npz(path).empty());
  EXPECT_EQ(names_in(folder / "").size(), 1u) << "something beside the archive is left";
}

TEST_F(Npz, WhatCannotBeWrittenLeavesTheOldFile) {
  const Tensor x = Tensor::from<float>({1}, {1});
  write_npz(path, {{"x", x}});
  const std::string before = read_file(path);
  expect_error([&] { write_npz(path, {{"x", x}, {"x", x}}); }, "npz: " + path, "\"x\" is there twice");
  expect_error([&] { write_npz(path, {{"", x}}); }, "is empty");
  expect_error([&] { write_npz(path, {{std::string("a\0b", 3), x}}); }, "has a byte 0");
  expect_error([&] { write_npz(path, {{"y", x.to(DType::bf16)}}); }, "NumPy has no bf16");
  expect_error([&] { write_npz(folder / "no/a.npz", {{"x", x}}); }, folder / "no");
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(names_in(folder / "").size(), 1u);
}

TEST_F(Npz, DamageIsNamed) {
  auto refused = [&](const std::string& bytes, const char* part) {
    folder.write("a.npz", bytes);
    expect_error([&] { read_npz(path); }, "npz: " + path, part);
  };
  refused("", "");
  refused("words", "");
  refused(golden().substr(0, 200), "");
  std::string other = golden();
  for (size_t at = 0; (at = other.find("b.weight.npy", at)) != std::string::npos;) other[at + 9] = 'N';
  refused(other, "\"b.weight.Npy\" is no array");
  other = golden();
  other[60] = char(other[60] ^ 0x55);  // within the first array's compressed bytes
  refused(other, "\"a.npy\"");
  expect_error([&] { read_npz(folder / "none.npz"); }, "none.npz");
  expect_error([&] { read_npz(folder.path()); }, folder.path());
}

// Any byte of it, and any length: an Error or an archive, and no crash.
TEST_F(Npz, BytesOfNobodyAreAnErrorOrArrays) {
  const std::string whole = golden();
  int read = 0, refused = 0;
  auto look = [&](const std::string& bytes) {
    folder.write("a.npz", bytes);
    try {
      read += int(read_npz(path).size() <= 2);
    } catch (const Error&) { ++refused; }
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = char(bytes[i] ^ (1 << (i % 8)));
    look(bytes);
    look(whole.substr(0, i));
  }
  EXPECT_GT(refused, int(whole.size()));
  EXPECT_GT(read, 0);  // dates and versions are of no use
}

}  // namespace
}  // namespace reprise::io
