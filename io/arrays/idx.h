// IDX: arrays of bytes as MNIST and its kin store them (yann.lecun.com/exdb/mnist), gzipped or not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::io {

/// An array of unsigned bytes, the last dimension next to each other.
struct IdxArray {
  std::vector<int64_t> shape;
  std::string bytes;
};

/// Reads a whole file of `rank` dimensions; 3 for images (N, height, width), 1 for labels. Error if it is something else,
/// or has more or fewer bytes than its sizes say: with the bytes wanted and there.
IdxArray read_idx(const std::string& path, int rank);

/// The same of a file in memory; `name` stands in messages.
IdxArray parse_idx(std::string bytes, const std::string& name, int rank);

/// `array` as a file.
std::string write_idx(const IdxArray& array);

}  // namespace reprise::io
