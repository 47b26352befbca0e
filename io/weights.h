// Weights in any file that is only data: safetensors, several of them with an index, and llm.c's checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::io {

/// What a file of weights holds, whatever its format.
struct Weights {
  /// Under the file's names, of llm.c under GPT-2's, all on the CPU.
  std::vector<std::pair<std::string, Tensor>> tensors{};
  std::map<std::string, std::string> metadata{};  ///< of a single .safetensors file; else empty
  int64_t heads = 0;                              ///< of attention, where the format says so (llm.c); else 0
};

/// Reads `path`: a .safetensors file, a model.safetensors.index.json with the files beside it, an llm.c checkpoint, a .npz of
/// NumPy, or a folder with one of the first two by their usual names. Error naming what is missing or wrong; for pickles (.pt,
/// .pth, .bin) with the line of Python that converts them.
Weights read_weights(const std::string& path);

}  // namespace reprise::io
