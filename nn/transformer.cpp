// The transformer block.
#include "reprise/nn/transformer.h"

namespace reprise::nn {
namespace {

LinearOptions inner(const BlockOptions& options) {
  return {.bias = options.bias, .init_stddev = options.init_stddev};
}

LinearOptions output(const BlockOptions& options) {
  return {.bias = options.bias,
          .init_stddev = options.output_stddev > 0 ? options.output_stddev : options.init_stddev};
}

int64_t hidden_of(const BlockOptions& options) {
  return options.hidden > 0 ? options.hidden : 4 * options.width;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const BlockOptions& options, Device device)
    : qkv(options.width, 3 * options.width, inner(options), device),
      proj(options.width, options.width, output(options), device),
      options_(options) {
  check(options.heads >= 1 && options.width % options.heads == 0, "MultiHeadAttention: width ", options.width,
        " is not a multiple of ", options.heads, " heads");
  register_module("qkv", qkv);
  register_module("proj", proj);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& residual) {
  double drop = training() ? options_.dropout : 0;
  Tensor y = packed_attention(qkv(x), options_.heads,
                              {.causal = options_.causal, .dropout = drop});  // (B, T, width)
  return proj.forward(y, {.residual = residual});
}

Mlp::Mlp(const BlockOptions& options, Device device)
    : fc1(options.width, hidden_of(options), inner(options), device),
      fc2(hidden_of(options), options.width, output(options), device),
      activation_(options.activation) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

Tensor Mlp::operator()(const Tensor& x, const Tensor& residual) {
  return mlp(x, fc1.weight, fc1.bias, fc2.weight, fc2.bias, activation_, residual);
}

TransformerBlock::TransformerBlock(const BlockOptions& options, Device device)
    : norm1(options.width, options.bias, options.norm_eps, device),
      attn(options, device),
      norm2(options.width, options.bias, options.norm_eps, device),
      mlp(options, device),
      dropout_(options.dropout),
      drop_path_(options.drop_path),
      fused_residual_(options.dropout == 0 && options.drop_path == 0) {
  register_module("norm1", norm1);
  register_module("attn", attn);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
  register_module("dropout", dropout_);
  register_module("drop_path", drop_path_);
}

Tensor TransformerBlock::forward(const Tensor& x) {
  if (fused_residual_ || !training()) {
    Tensor middle = attn(norm1(x), x);
    return mlp(norm2(middle), middle);
  }
  auto [middle, normed] = norm2.add(x, drop_path_(dropout_(attn(norm1(x)))));
  return middle + drop_path_(dropout_(mlp(normed)));
}

}  // namespace reprise::nn
