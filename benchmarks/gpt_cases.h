// The GPTs whose training is timed, by name: those of benchmarks/torch_gpt.py.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::bench {

struct GptCase {
  const char* name;
  nn::GptOptions model;
  int64_t batch, length, steps;
};

inline const GptCase gpt_cases[] = {
    {"gpt_small", {.vocab_size = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, 12, 64, 40},
    {"gpt_6x384", {.vocab_size = 65, .context = 256, .layers = 6, .heads = 6, .width = 384}, 16, 256, 2},
    {"gpt2_124m", {}, 4, 64, 2},
    {"gpt2_124m_256", {}, 4, 256, 1},
    {"gpt2_124m_gpu", {.vocab_size = 50304}, 64, 1024, 4},
};

/// Leaves with the names that there are, where it is none of them.
inline const GptCase& find_case(const std::string& name) {
  for (const GptCase& known : gpt_cases)
    if (name == known.name) return known;
  std::fprintf(stderr, "unknown model '%s'; use one of:", name.c_str());
  for (const GptCase& known : gpt_cases) std::fprintf(stderr, " %s", known.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

/// (rows, length), i64.
inline Tensor random_tokens(const GptCase& c, int64_t rows, Device device) {
  const Tensor uniform = rand({rows, c.length}, DType::f32, device);
  return cast(uniform * double(c.model.vocab_size), DType::i64);
}

}  // namespace reprise::bench
