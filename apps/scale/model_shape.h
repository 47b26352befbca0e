// ModelShape: parameters and floating-point operations of a transformer, without one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::apps::scale {

enum class ModelFamily : uint8_t { gpt, llama };

struct ModelShape {
  std::string name;
  ModelFamily family = ModelFamily::gpt;
  int64_t layers = 12, width = 768, heads = 12, vocab_size = 50257, context = 1024;
  int64_t key_width = 768, hidden = 3072;  ///< of keys and values, and within the MLP
  bool is_tied = true;                     ///< the head's matrix is the token table
  bool has_qkv_bias = true;
};

/// A preset, or gpt_LxW: L blocks of width W, heads of 64 (of 32 where W is below 256), 65 characters, a context of 256. Error that
/// lists them on anything else. Those of the family llama are for comparing with published runs: Reprise has no such model.
ModelShape model_shape(const std::string& name);

/// Elements of each parameter, in the order of registration.
std::vector<int64_t> embedding_parameters(const ModelShape& shape);
std::vector<int64_t> block_parameters(const ModelShape& shape);
std::vector<int64_t> head_parameters(const ModelShape& shape);

/// Floating-point operations of forward for one token: two per element of a matrix, and attention over the whole sequence, as
/// Chowdhery et al. 2022 (appendix B) count.
double block_flops(const ModelShape& shape, int64_t length);
double head_flops(const ModelShape& shape);

}  // namespace reprise::apps::scale
