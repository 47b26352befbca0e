// NumPy's archives: arrays by name in a zip file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::io {

/// Arrays by their names, in an archive's order.
using NamedArrays = std::vector<std::pair<std::string, Tensor>>;

bool has_npz();  ///< whether this build has libzip

/// New tensors on the CPU of what numpy.savez or numpy.savez_compressed wrote. Errors as of `read_npy`, with the array's name too;
/// and naming the entry that is no array, is encrypted, comes twice or is damaged (its checksum is another). Error without libzip.
NamedArrays read_npz(const std::string& path);

/// Writes tensors (on any device, with any strides) for numpy.load, not compressed, atomically and durably; the same tensors
/// give the same bytes. Error for bf16, which NumPy has not, for a name that is empty or comes twice, and without libzip.
void write_npz(const std::string& path, const NamedArrays& arrays);

}  // namespace reprise::io
