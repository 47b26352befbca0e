// Llamas with the weights of transformers (tools/parity_llama.py made the golden file).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reprise/io/safetensors.h"
#include "reprise/nn/models/llama.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {

inline nn::LlamaOptions small_llama() {
  return {.vocab_size = 61, .context = 24, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .hidden = 24};
}

/// Of the sizes that the golden file has under `family`.
inline nn::LlamaOptions llama_like(const std::string& family) {
  nn::LlamaOptions options = small_llama();
  if (family == "qwen2.") options.rope_theta = 500000, options.tied = true, options.qkv_bias = true;
  if (family == "llama3." || family == "linear." || family == "yarn.")
    options.heads = 2, options.kv_heads = 1, options.rope_theta = 500;
  if (family == "llama3.") options.rope_scaling = nn::parse_rope_scaling("llama3:8:1:4:64");
  if (family == "linear.") options.rope_scaling = nn::parse_rope_scaling("linear:4");
  if (family == "yarn.") options.rope_scaling = nn::parse_rope_scaling("yarn:4:4:0.5:32");
  if (family == "qwen3.") options.head_dim = 8, options.qk_norm = true, options.tied = true;
  if (family == "mistral.") options.window = 5;
  return options;
}

/// With transformers' weights, which are far from those of a new model: what a token sees of others changes the next one.
struct GoldenLlama {
  explicit GoldenLlama(const std::string& the_family) : family(the_family) {
    nn::NamedTensors state;
    for (const auto& [name, parameter] : model.state_dict()) state.emplace_back(name, read(name));
    model.load_state_dict(state);
  }
  Tensor read(const std::string& name) const { return file.read(family + name).to(test_device()); }

  std::string family;
  io::SafetensorsFile file{golden_path("llama_parity.safetensors")};
  nn::Llama model{llama_like(family), test_device()};
};

/// Relative to the largest value of the tensor.
inline void expect_golden(const std::string& name, const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::isnan(a[i]) ? a[i] : std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  EXPECT_LE(difference, 1e-5 * largest) << name;
}

}  // namespace reprise::testing
