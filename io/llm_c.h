// Checkpoints of llm.c: GPT-2's weights behind a header of 256 int32, kind by kind over the layers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::io {

struct LlmC {
  int64_t heads = 0;
  /// Under GPT-2's names, matrices (out, in): "h.0.attn.c_attn.weight" (3 width, width).
  std::vector<std::pair<std::string, Tensor>> tensors{};
};

/// What the first int32 of such a file is: of GPT-2, and of Llama 3.
inline constexpr int32_t llm_c_magic = 20240326, llm_c_llama_magic = 20240803;

/// Reads version 3 (f32) or 5 (bf16); the rows that pad the vocabulary are left out. Error naming the file if it is of
/// another version, or its sizes are not those of its bytes.
LlmC read_llm_c(const std::string& path);

/// Writes a GPT-2 that is all f32 or all bf16, contiguous on the CPU, atomically; the vocabulary is padded with zeros to a multiple of
/// 128. Error naming a tensor that is missing, unknown or of another shape or dtype.
void write_llm_c(const std::string& path, const LlmC& model);

}  // namespace reprise::io
