// An array of NumPy's as bytes in order: in a file of its own, or in an archive.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "reprise/core/tensor.h"

namespace reprise::io {

struct ByteStream {
  std::string name{};                                  ///< for messages
  uint64_t size = 0;                                   ///< bytes in all
  std::function<void(void* data, size_t bytes)> read;  ///< the next ones; Error if they are not there
};

/// What `read_npy` reads, from where the stream begins to its end.
Tensor read_npy(const ByteStream& stream);

/// What stands before the elements of `x` in C's order. Error, naming `path`, where NumPy has no such elements.
std::string npy_front(const std::string& path, const Tensor& x);

}  // namespace reprise::io
