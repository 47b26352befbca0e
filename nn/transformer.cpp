// The transformer block.
#include "reprise/nn/transformer.h"

namespace reprise::nn {
namespace {

double output_stddev(const auto& options) {
  check(options.output_stddev >= 0, "transformer: output_stddev must be at least 0, got ",
        options.output_stddev);
  return options.output_stddev > 0 ? options.output_stddev : options.init_stddev;
}

int64_t hidden_of(int64_t width, const BlockOptions& options) {
  check(options.hidden >= 0, "TransformerBlock: hidden must be at least 0, got ", options.hidden);
  return options.hidden > 0 ? options.hidden : 4 * width;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options,
                                       Device device)
    : qkv(width, 3 * width, {.bias = options.bias && options.qkv_bias, .init_stddev = options.init_stddev},
          device),
      proj(width, width, {.bias = options.bias, .init_stddev = output_stddev(options)}, device),
      heads_(heads),
      attention_{.causal = options.causal, .dropout = options.dropout} {
  check(heads >= 1 && width % heads == 0, "MultiHeadAttention: width ", width, " is not a multiple of ",
        heads, " heads");
  check(options.dropout >= 0 && options.dropout < 1, "MultiHeadAttention: dropout must be in [0, 1), got ",
        options.dropout);
  register_module("qkv", qkv);
  register_module("proj", proj);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& residual) {
  AttentionOptions options = attention_;
  if (!training()) options.dropout = 0;
  Tensor y = packed_attention(qkv(x), heads_, options);  // (B, T, width)
  return proj.forward(y, {.residual = residual});
}

Mlp::Mlp(int64_t width, int64_t hidden, const MlpOptions& options, Device device)
    : fc1(width, hidden, {.bias = options.bias, .init_stddev = options.init_stddev}, device),
      fc2(hidden, width, {.bias = options.bias, .init_stddev = output_stddev(options)}, device),
      activation_(options.activation) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

Tensor Mlp::operator()(const Tensor& x, const Tensor& residual) {
  return mlp(x, fc1.weight, fc1.bias, fc2.weight, fc2.bias, activation_, residual);
}

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options, Device device)
    : norm1(width, {.eps = options.norm_eps, .bias = options.bias}, device),
      attn(width, heads,
           {.causal = options.causal,
            .bias = options.bias,
            .qkv_bias = options.qkv_bias,
            .dropout = options.dropout,
            .init_stddev = options.init_stddev,
            .output_stddev = options.output_stddev},
           device),
      norm2(width, {.eps = options.norm_eps, .bias = options.bias}, device),
      mlp(width, hidden_of(width, options),
          {.activation = options.activation,
           .bias = options.bias,
           .init_stddev = options.init_stddev,
           .output_stddev = options.output_stddev},
          device),
      dropout_(options.dropout),
      drop_path_(options.drop_path),
      drops_(options.dropout > 0 || options.drop_path > 0) {
  check(options.layer_scale >= 0, "TransformerBlock: layer_scale must be at least 0, got ",
        options.layer_scale);
  if (options.layer_scale > 0) {
    ls1.emplace(width, options.layer_scale, device);
    ls2.emplace(width, options.layer_scale, device);
  }
  register_module("norm1", norm1);
  register_module("attn", attn);
  if (ls1) register_module("ls1", *ls1);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
  if (ls2) register_module("ls2", *ls2);
  register_module("dropout", dropout_);
  register_module("drop_path", drop_path_);
}

Tensor TransformerBlock::forward(const Tensor& x) {
  // Nothing between a branch's last product and the sum: they are one operation.
  if (!ls1 && !(drops_ && training())) {
    Tensor middle = attn(norm1(x), x);
    return mlp(norm2(middle), middle);
  }
  auto branch = [&](const Tensor& y, std::optional<LayerScale>& scale) {
    Tensor dropped = dropout_(y);
    return drop_path_(scale ? (*scale)(dropped) : dropped);
  };
  auto [middle, normed] = norm2.add(x, branch(attn(norm1(x)), ls1));
  return middle + branch(mlp(normed), ls2);
}

}  // namespace reprise::nn
