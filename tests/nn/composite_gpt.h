// GPT-2 in simple operations and f64: what nn::Gpt and its parts must agree with, gradients included.
#pragma once

#include <map>
#include <string>

#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::testing {

using Weights = std::map<std::string, Tensor>;

/// Leaves in f64 with a module's values, by name.
inline Weights f64_copies(const nn::Module& module) {
  Weights copies;
  for (auto& [name, parameter] : module.named_parameters()) {
    Tensor copy = parameter.detach().to(DType::f64);
    copies[name] = copy.set_requires_grad();
  }
  return copies;
}

inline Tensor weight_of(const Weights& w, const std::string& name) {
  auto found = w.find(name);
  return found == w.end() ? Tensor() : found->second;
}

/// Attention half of a block, projections included: x (B, T, C) -> (B, T, C). `prefix` ends in a dot.
inline Tensor composite_attention(const Weights& w, const std::string& prefix, const Tensor& x, int64_t heads,
                                  bool causal = true) {
  int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  Tensor qkv = composite::linear(x, w.at(prefix + "qkv.weight"), weight_of(w, prefix + "qkv.bias"), {});
  auto part = [&](int64_t i) {
    return slice(qkv, 2, i * width, (i + 1) * width)
        .reshape({batch, length, heads, width / heads})
        .transpose(1, 2);  // (B, H, T, D)
  };
  Tensor y = composite::attention(part(0), part(1), part(2), {.causal = causal});
  y = y.transpose(1, 2).reshape({batch, length, width});
  return composite::linear(y, w.at(prefix + "proj.weight"), weight_of(w, prefix + "proj.bias"), {});
}

inline Tensor composite_mlp(const Weights& w, const std::string& prefix, const Tensor& x,
                            Activation activation = Activation::gelu_tanh) {
  Tensor hidden = composite::linear(x, w.at(prefix + "fc1.weight"), weight_of(w, prefix + "fc1.bias"), {});
  hidden = composite::activate(hidden, activation);
  return composite::linear(hidden, w.at(prefix + "fc2.weight"), weight_of(w, prefix + "fc2.bias"), {});
}

inline Tensor composite_norm(const Weights& w, const std::string& prefix, const Tensor& x,
                             double eps = 1e-5) {
  return composite::layer_norm(x, w.at(prefix + "weight"), weight_of(w, prefix + "bias"), eps);
}

/// With LayerScale where there are weights for it.
inline Tensor composite_block(const Weights& w, const std::string& prefix, const Tensor& x, int64_t heads,
                              bool causal = true, Activation activation = Activation::gelu_tanh,
                              double eps = 1e-5) {
  auto scaled = [&](const Tensor& y, const std::string& name) {
    Tensor gamma = weight_of(w, prefix + name + ".gamma");
    return gamma.defined() ? y * gamma : y;
  };
  Tensor normed = composite_norm(w, prefix + "norm1.", x, eps);
  Tensor middle = x + scaled(composite_attention(w, prefix + "attn.", normed, heads, causal), "ls1");
  normed = composite_norm(w, prefix + "norm2.", middle, eps);
  return middle + scaled(composite_mlp(w, prefix + "mlp.", normed, activation), "ls2");
}

/// tokens (B, T) -> logits (B, T, V).
inline Tensor composite_gpt(const Weights& w, const nn::GptOptions& options, const Tensor& tokens) {
  Tensor wte = w.at("wte.weight"), positions = slice(w.at("wpe.weight"), 0, 0, tokens.size(1));
  Tensor x = matmul(one_hot(tokens, options.vocab_size, DType::f64), wte) + positions;
  for (int64_t i = 0; i < options.layers; ++i)
    x = composite_block(w, "h." + std::to_string(i) + ".", x, options.heads, true, options.activation);
  return matmul(composite_norm(w, "ln_f.", x), wte.transpose(0, 1));
}

inline Tensor composite_loss(const Weights& w, const nn::GptOptions& options, const Tensor& tokens,
                             const Tensor& targets) {
  return composite::cross_entropy(composite_gpt(w, options, tokens), targets, {});
}

}  // namespace reprise::testing
