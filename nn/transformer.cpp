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
      rope_(options.rope),
      heads_(heads),
      attention_{.causal = options.causal, .window = options.window, .dropout = options.dropout} {
  check(heads >= 1 && width % heads == 0, "MultiHeadAttention: width ", width, " is not a multiple of ",
        heads, " heads");
  check(options.dropout >= 0 && options.dropout < 1, "MultiHeadAttention: dropout must be in [0, 1), got ",
        options.dropout);
  check(options.window >= 0, "MultiHeadAttention: window must be at least 0, got ", options.window);
  register_module("qkv", qkv);
  if (options.qk_norm) {
    const LayerNormOptions norm{.eps = options.norm_eps, .bias = options.bias};
    q_norm.emplace(*options.qk_norm, width / heads, norm, device);
    k_norm.emplace(*options.qk_norm, width / heads, norm, device);
    register_module("q_norm", *q_norm);
    register_module("k_norm", *k_norm);
  }
  register_module("proj", proj);
  if (rope_) register_module("rope", *rope_);
}

TensorList MultiHeadAttention::queries_keys_values(const Tensor& x) const {
  const int64_t batch = x.size(0), tokens = x.size(1), head_dim = x.size(2) / heads_;
  Tensor packed = reshape(qkv(x), {batch, tokens, 3, heads_, head_dim});
  auto part = [&](int64_t i, const std::optional<Norm>* norm) {
    Tensor y = select(packed, 2, i);  // (B, T, heads, head_dim)
    if (norm && *norm) y = (*norm)->forward(y, rope_ ? ResultOptions() : for_product(y));
    return transpose(norm && rope_ ? (*rope_)(y) : y, 1, 2);
  };
  return {part(0, &q_norm), part(1, &k_norm), part(2, nullptr)};
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const LinearEpilogue& end) const {
  return is_changed() ? apply_epilogue((*this)(x), end) : attend(x, {}, end);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const {
  if (!mask.defined()) return (*this)(x, end);
  check(!is_changed(), "MultiHeadAttention: with hooks, or replaced, it takes no mask");
  return attend(x, mask, end);
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const {
  MaskedAttentionOptions options = attention_;
  if (!training()) options.dropout = 0;
  const AttentionOptions plain{.causal = options.causal, .dropout = options.dropout};
  const bool masked = mask.defined() || (options.window > 0 && options.window < x.size(1));
  if (!masked && !q_norm && !rope_) return proj.forward(packed_attention(qkv(x), heads_, plain), end);
  const TensorList parts = queries_keys_values(x);
  const Tensor y = masked ? masked_attention(parts[0], parts[1], parts[2], mask, options)
                          : attention(parts[0], parts[1], parts[2], plain);
  return proj.forward(reshape(transpose(y, 1, 2), x.shape()), end);
}

Tensor MultiHeadAttention::step(const Tensor& x, const LinearEpilogue& end, const KvPlace& place) const {
  check_unchanged("step");
  check(!rope_ && attention_.causal,
        "MultiHeadAttention: step needs causal attention without rotary positions");
  const TensorList parts = queries_keys_values(x);
  const Tensor y =
      place.cache.attend(place.layer, place.first_row, parts[0], parts[1], parts[2], attention_.window);
  return proj.forward(reshape(transpose(y, 1, 2), x.shape()), end);
}

Mlp::Mlp(int64_t width, int64_t hidden, const MlpOptions& options, Device device)
    : fc1(width, hidden, {.bias = options.bias, .init_stddev = options.init_stddev}, device),
      fc2(hidden, width, {.bias = options.bias, .init_stddev = output_stddev(options)}, device),
      activation_(options.activation) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
}

Tensor Mlp::operator()(const Tensor& x, const LinearEpilogue& end) const {
  return is_changed() ? apply_epilogue((*this)(x), end) : fused(x, end);
}

Tensor Mlp::fused(const Tensor& x, const LinearEpilogue& end) const {
  if (fc1.is_changed() || fc2.is_changed())
    return fc2.forward(fc1.forward(x, {.activation = activation_}), end);
  return mlp(x, fc1.weight, fc1.bias, fc2.weight, fc2.bias, activation_, end);
}

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options, Device device)
    : norm1(options.norm, width, {.eps = options.norm_eps, .bias = options.bias}, device),
      attn(width, heads,
           {.causal = options.causal,
            .window = options.window,
            .bias = options.bias,
            .qkv_bias = options.qkv_bias,
            .dropout = options.dropout,
            .init_stddev = options.init_stddev,
            .output_stddev = options.output_stddev,
            .qk_norm = options.qk_norm ? std::optional(options.norm) : std::nullopt,
            .norm_eps = options.norm_eps,
            .rope = options.rope},
           device),
      norm2(options.norm, width, {.eps = options.norm_eps, .bias = options.bias}, device),
      mlp(width, hidden_of(width, options),
          {.activation = options.activation,
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
  if (!mask.defined()) return (*this)(x);
  check(!is_changed(), "TransformerBlock: a block with hooks, or replaced, takes no mask");
  return forward(x, mask);
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
