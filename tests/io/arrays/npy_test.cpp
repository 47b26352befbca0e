// Files of NumPy: bytes that numpy.save 2.4 wrote, and what is wrong with others.
#include "reprise/io/arrays/npy.h"

#include <gtest/gtest.h>

#include "reprise/io/file.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

// The dict of a header, filled with spaces to the 118 bytes that follow magic, version and length.
std::string npy(std::string dict, const std::string& data, const std::string& version = {"\x01\x00", 2}) {
  dict.resize(117, ' ');
  const std::string length =
      version[0] == 1 ? std::string("\x76\x00", 2) : std::string("\x76\x00\x00\x00", 4);
  return "\x93NUMPY" + version + length + dict + "\n" + data;
}

struct Case {
  std::string file;
  Tensor want;
  bool is_written_so = true;
};

// numpy.save of [[1.5, -2, 3], [4, 5, 6]] as <f4; of arange(6).reshape(2, 3) as <i8 in Fortran's order; and so on.
std::vector<Case> cases() {
  const std::string floats("\0\0\xc0?\0\0\0\xc0\0\0@@\0\0\x80@\0\0\xa0@\0\0\xc0@", 24);
  std::string integers;
  for (char value : {0, 3, 1, 4, 2, 5}) integers += value + std::string(7, '\0');
  const Tensor floats_there = Tensor::from<float>({1.5, -2, 3, 4, 5, 6}, {2, 3});
  return {
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", floats), floats_there},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", floats, {"\x02\0", 2}),
       floats_there, false},
      {npy("{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", floats, {"\x03\0", 2}),
       floats_there, false},
      {npy("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3), }", integers),
       Tensor::from<int64_t>({0, 1, 2, 3, 4, 5}, {2, 3}), false},
      {npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", std::string("\0\0\0\0\0\0\x04@", 8)),
       Tensor::from<double>({2.5}, {})},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\x01\0\x01", 3)),
       Tensor::from<uint8_t>({1, 0, 1}, {3}).to(DType::boolean)},
      {npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", std::string("\0<\xff{", 4)),
       Tensor::from<float>({1, 65504}, {2}).to(DType::f16)},
      {npy("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3), }", ""),
       Tensor::from<uint8_t>({}, {0, 3})},
  };
}

TEST(Npy, ReadsWhatNumPyWrites) {
  TempFolder folder;
  for (const Case& c : cases()) {
    const Tensor got = read_npy(folder.write("x.npy", c.file));
    EXPECT_EQ(got.dtype(), c.want.dtype());
    EXPECT_EQ(got.shape(), c.want.shape());
    EXPECT_TRUE(testing::same_bits(got, c.want)) << c.file.substr(8, 100);
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  TempFolder folder;
  for (const Case& c : cases()) {
    if (!c.is_written_so) continue;
    write_npy(folder / "x.npy", c.want);
    EXPECT_EQ(read_file(folder / "x.npy"), c.file);
  }
  // A view of other strides, in its own order.
  write_npy(folder / "t.npy", Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1));
  EXPECT_EQ(read_file(folder / "t.npy"),
            npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", "\x01\x04\x02\x05\x03\x06"));
  expect_error([&] { write_npy(folder / "b.npy", Tensor::zeros({1}, DType::bf16)); }, "NumPy has no bf16");
  EXPECT_FALSE(std::filesystem::exists(folder / "b.npy"));
}

TEST(Npy, AFileCutAnywhereIsAnError) {
  TempFolder folder;
  for (const Case& c : cases())
    for (size_t bytes = 0; bytes < c.file.size(); ++bytes)
      expect_error([&] { read_npy(folder.write("x.npy", c.file.substr(0, bytes))); }, "npy: ");
}

TEST(Npy, OtherFilesAreErrorsThatSayWhat) {
  TempFolder folder;
  const std::pair<std::string, std::string> others[] = {
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd"), "elements are \">f4\""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcde"),
       "needs 4 bytes, 5 are there"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "abcd"), "pickles can run code"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd"), "structs"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "abcdefgh"), "elements are \"<c8\""},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\x01\x02"), "bool 1 is 2"},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "abcd"), "fortran_order \"Maybe\""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "abcd"), "a size \"-1\""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""),
       "multiply to more bytes"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", ""),
       "multiply to more bytes"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", "abcd"),
       "more than 8 dimensions"},
      {npy("{'descr': '<f4', 'fortran_order': False, }", "abcd"),
       "needs 'descr', 'fortran_order' and 'shape'"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "abcd"),
       "unknown key \"more\""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } + 1", "abcd"), "goes on behind"},
      {npy("", "abcd", {"\x04\0", 2}), "version 4"},
      {std::string("PK\x03\x04") + std::string(100, 'x'), "does not start as numpy.save's files do"},
  };
  for (const auto& [file, words] : others)
    expect_error([&] { read_npy(folder.write("x.npy", file)); }, {"npy: " + (folder / "x.npy"), words});
}

}  // namespace
}  // namespace reprise::io
