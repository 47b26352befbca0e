#include "reprise/nn/transformers/transformer_block.h"

namespace reprise::nn {
namespace {

int64_t hidden_of(int64_t width, const BlockOptions& options) {
  check(options.hidden >= 0, "TransformerBlock: hidden must be at least 0, got ", options.hidden);
  return options.hidden > 0 ? options.hidden : default_hidden(width, options.gated);
}

}  // namespace

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options, Device device)
    : norm1(options.norm, width, {.eps = options.norm_eps, .bias = options.bias}, device),
      attn(width, heads,
           {.kv_heads = options.kv_heads,
            .head_dim = options.head_dim,
            .causal = options.causal,
            .window = options.window,
            .bias = options.bias,
            .qkv_bias = options.qkv_bias,
            .dropout = options.dropout,
            .init_stddev = options.init_stddev,
            .output_stddev = options.output_stddev,
            .qk_norm = options.qk_norm ? std::optional(options.norm) : std::nullopt,
            .norm_eps = options.norm_eps,
            .rope = options.rope,
            .rotary = options.rotary},
           device),
      norm2(options.norm, width, {.eps = options.norm_eps, .bias = options.bias}, device),
      mlp(width, hidden_of(width, options),
          {.activation = options.activation,
           .gated = options.gated,
           .bias = options.bias,
           .init_stddev = options.init_stddev,
           .output_stddev = options.output_stddev},
          device),
      dropout_(options.dropout),
      drop_path_(options.drop_path),
      drops_(options.dropout > 0) {
  check(options.layer_scale >= 0, "TransformerBlock: layer_scale must be at least 0, got ",
        options.layer_scale);
  if (options.layer_scale > 0) {
    ls1.emplace(width, options.layer_scale, device);
    ls2.emplace(width, options.layer_scale, device);
  }
  register_module("norm1", norm1);
  register_module("attn", attn);
  if (ls1) register_fixed("ls1", *ls1);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
  if (ls2) register_fixed("ls2", *ls2);
  register_fixed("dropout", dropout_);
  register_fixed("drop_path", drop_path_);
}

template <class Attend>
Tensor TransformerBlock::joined(const Tensor& x, Attend&& attend) const {
  auto join = [&](const Tensor& residual, const std::optional<LayerScale>& scale) {
    return LinearEpilogue{.residual = residual,
                          .scale = scale ? scale->gamma : Tensor(),
                          .row_scale = drop_path_.keep(residual)};
  };
  Tensor middle = attend(norm1.forward(x, for_product(x)), join(x, ls1));
  return mlp(norm2.forward(middle, for_product(middle)), join(middle, ls2));
}

Tensor TransformerBlock::step(const Tensor& x, const KvPlace& place) const {
  check(!training(), "TransformerBlock: step needs eval mode");
  check_unchanged("step");
  return joined(x, [&](const Tensor& y, const LinearEpilogue& end) { return attn.step(y, end, place); });
}

Tensor TransformerBlock::operator()(const Tensor& x, const Tensor& mask) const {
  return mask.defined() ? call_with(x, {mask}) : (*this)(x);
}

Tensor TransformerBlock::forward_with(const Tensor& x, const TensorList& beside) {
  check(beside.size() == 1, "TransformerBlock: takes a mask beside x, got ", beside.size(), " tensors");
  return forward(x, beside[0]);
}

Tensor TransformerBlock::forward(const Tensor& x, const Tensor& mask) const {
  if (!(drops_ && training()))
    return joined(x, [&](const Tensor& y, const LinearEpilogue& end) { return attn(y, mask, end); });
  auto branch = [&](const Tensor& y, const std::optional<LayerScale>& scale) {
    Tensor dropped = dropout_(y);
    return drop_path_(scale ? (*scale)(dropped) : dropped);
  };
  const Tensor attended = attn(norm1.forward(x, for_product(x)), mask);
  auto [middle, normed] = norm2.add(x, branch(attended, ls1), for_product(x));
  return middle + branch(mlp(normed), ls2);
}

}  // namespace reprise::nn
