#include "reprise/nn/transformers/multi_head_attention.h"

#include "reprise/autograd/ops/attention/rotary.h"
#include "reprise/nn/init.h"

namespace reprise::nn {
namespace {

using Options = MultiHeadAttentionOptions;

int64_t kv_heads_of(int64_t heads, const Options& o) { return o.kv_heads > 0 ? o.kv_heads : heads; }

int64_t head_dim_of(int64_t width, int64_t heads, const Options& o) {
  check(o.head_dim >= 0, "MultiHeadAttention: head_dim must be at least 0, got ", o.head_dim);
  check(heads >= 1 && (o.head_dim > 0 || width % heads == 0), "MultiHeadAttention: width ", width,
        " is not a multiple of ", heads, " heads");
  check(o.kv_heads >= 0 && heads % kv_heads_of(heads, o) == 0, "MultiHeadAttention: ", heads,
        " heads cannot share ", o.kv_heads, " of keys and values");
  return o.head_dim > 0 ? o.head_dim : width / heads;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, const Options& options, Device device)
    : qkv(width, (heads + 2 * kv_heads_of(heads, options)) * head_dim_of(width, heads, options),
          {.bias = options.bias && options.qkv_bias, .init_stddev = options.init_stddev}, device),
      proj(heads * head_dim_of(width, heads, options), width,
           {.bias = options.bias, .init_stddev = residual_stddev(options.init_stddev, options.output_stddev)},
           device),
      rope_(options.rope),
      rotary_(options.rotary),
      heads_(heads),
      kv_heads_(kv_heads_of(heads, options)),
      head_dim_(head_dim_of(width, heads, options)),
      attention_{.causal = options.causal, .window = options.window, .dropout = options.dropout} {
  check(options.dropout >= 0 && options.dropout < 1, "MultiHeadAttention: dropout must be in [0, 1), got ",
        options.dropout);
  check(options.window >= 0, "MultiHeadAttention: window must be at least 0, got ", options.window);
  check(!rope_ || !rotary_, "MultiHeadAttention: rope and rotary would both turn queries and keys");
  check(!rotary_ || 2 * rotary_->cosines.size(1) == head_dim_, "MultiHeadAttention: rotary is of ",
        rotary_ ? 2 * rotary_->cosines.size(1) : 0, " channels, a head has ", head_dim_);
  register_module("qkv", qkv);
  if (options.qk_norm) {
    const LayerNormOptions norm{.eps = options.norm_eps, .bias = options.bias};
    q_norm.emplace(*options.qk_norm, head_dim_, norm, device);
    k_norm.emplace(*options.qk_norm, head_dim_, norm, device);
    register_module("q_norm", *q_norm);
    register_module("k_norm", *k_norm);
  }
  register_module("proj", proj);
  if (rope_) register_module("rope", *rope_);
  if (rotary_) register_module("rotary", *rotary_);
}

TensorList MultiHeadAttention::split(const Tensor& x, const RotaryAngles& angles) const {
  const Tensor packed = reshape(qkv(x), {x.size(0), x.size(1), heads_ + 2 * kv_heads_, head_dim_});
  auto part = [&](int64_t from, int64_t count) { return slice(packed, 2, from, from + count); };
  auto turned = [&](const Tensor& y, const std::optional<Norm>& norm) {
    const bool turns = rope_ || rotary_;
    const Tensor normed = norm ? norm->forward(y, turns ? ResultOptions() : for_product(y)) : y;
    const ResultOptions result = for_product(normed);
    const Tensor of_heads = transpose(rope_ ? rope_->forward(normed, result) : normed, 1, 2);
    return rotary_ ? rotary(of_heads, angles.cosines, angles.sines, {.out = result.out}) : of_heads;
  };
  return {turned(part(0, heads_), q_norm), turned(part(heads_, kv_heads_), k_norm),
          transpose(part(heads_ + kv_heads_, kv_heads_), 1, 2)};
}

TensorList MultiHeadAttention::queries_keys_values(const Tensor& x) const {
  return split(x, rotary_ ? rotary_->first(x.size(1)) : RotaryAngles());
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const LinearEpilogue& end) const {
  return is_changed() ? apply_epilogue((*this)(x), end) : attend(x, {}, end);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const {
  if (!mask.defined()) return (*this)(x, end);
  if (!is_changed()) return attend(x, mask, end);
  return apply_epilogue(call_with(x, {mask}), end);
}

Tensor MultiHeadAttention::forward_with(const Tensor& x, const TensorList& beside) {
  check(beside.size() == 1, "MultiHeadAttention: takes a mask beside x, got ", beside.size(), " tensors");
  return attend(x, beside[0], {});
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const {
  MaskedAttentionOptions options = attention_;
  if (!training()) options.dropout = 0;
  const bool hides = mask.defined() || (options.window > 0 && options.window < x.size(1));
  if (!hides && kv_heads_ == heads_ && !q_norm && !rope_ && !rotary_)
    return proj.forward(
        packed_attention(qkv(x), heads_, {.causal = options.causal, .dropout = options.dropout}), end);
  const TensorList parts = queries_keys_values(x);
  return joined(masked_attention(parts[0], parts[1], parts[2], mask, options), end);
}

Tensor MultiHeadAttention::step(const Tensor& x, const LinearEpilogue& end, const KvPlace& place) const {
  check_unchanged("step");
  check(!rope_ && attention_.causal, "MultiHeadAttention: step needs causal attention without rope");
  check(!rotary_ || place.angles.cosines.defined(),
        "MultiHeadAttention: step with rotary needs the angles of x in its place: rotary->at(positions)");
  const TensorList parts = split(x, place.angles);
  return joined(
      place.cache.attend(place.layer, place.first_row, parts[0], parts[1], parts[2], attention_.window), end);
}

// Of (B, heads, T, head_dim).
Tensor MultiHeadAttention::joined(const Tensor& heads, const LinearEpilogue& end) const {
  const Shape shape{heads.size(0), heads.size(2), heads_ * head_dim_};
  return proj.forward(reshape(transpose(heads, 1, 2), shape), end);
}

std::string MultiHeadAttention::extra_repr() const {
  return OptionText()
      .add("heads", heads_)
      .add_unless(heads_, "kv_heads", kv_heads_)
      .add_unless(true, "causal", attention_.causal)
      .add_unless<int64_t>(0, "window", attention_.window)
      .add_unless(0.0, "dropout", attention_.dropout)
      .str();
}

}  // namespace reprise::nn
