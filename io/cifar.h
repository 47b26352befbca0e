// CIFAR's binary files (cs.toronto.edu/~kriz/cifar.html): a byte or two of labels, then 32 x 32 pixels, plane by plane.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::io {

inline constexpr int64_t cifar_side = 32;

struct CifarImages {
  std::string images;  ///< u8 (N, 32, 32, 3)
  std::string labels;  ///< u8 (N, labels of an image)
};

/// Reads the records of a file in memory: of 3,073 bytes with one label, as CIFAR-10's, or 3,074 with two, as CIFAR-100's,
/// coarse and fine. Error, naming the file, unless it holds whole records, and one at least.
CifarImages parse_cifar(std::string_view bytes, const std::string& name, int labels_per_image);

/// The same file from its images.
std::string write_cifar(const CifarImages& images, int labels_per_image);

}  // namespace reprise::io
