#include "reprise/nn/transformers/cross_attention.h"

#include "reprise/autograd/ops/attention/masked_attention.h"

namespace reprise::nn {
namespace {

int64_t head_width(int64_t width, int64_t heads, const CrossAttentionOptions& options) {
  check(heads >= 1 && width % heads == 0, "CrossAttention: width ", width, " is not a multiple of ", heads,
        " heads");
  check(options.kv_heads >= 0 && (options.kv_heads == 0 || heads % options.kv_heads == 0),
        "CrossAttention: ", heads, " heads cannot share ", options.kv_heads, " of keys and values");
  check(options.dropout >= 0 && options.dropout < 1, "CrossAttention: dropout must be in [0, 1), got ",
        options.dropout);
  check(options.window >= 0, "CrossAttention: window is ", options.window, ", should not be negative");
  return width / heads;
}

int64_t kv_width(int64_t width, int64_t heads, const CrossAttentionOptions& options) {
  return head_width(width, heads, options) * (options.kv_heads > 0 ? options.kv_heads : heads);
}

int64_t context_width(int64_t width, const CrossAttentionOptions& options) {
  check(options.context_width >= 0, "CrossAttention: a context_width of ", options.context_width);
  return options.context_width > 0 ? options.context_width : width;
}

}  // namespace

CrossAttention::CrossAttention(int64_t width, int64_t heads, const CrossAttentionOptions& options,
                               Device device)
    : q_proj(width, width, {.bias = options.bias}, device),
      k_proj(context_width(width, options), kv_width(width, heads, options), {.bias = options.bias}, device),
      v_proj(context_width(width, options), kv_width(width, heads, options), {.bias = options.bias}, device),
      out_proj(width, width, {.bias = options.bias}, device),
      heads_(heads),
      kv_heads_(options.kv_heads > 0 ? options.kv_heads : heads),
      dropout_(options.dropout),
      causal_(options.causal),
      window_(options.window) {
  register_module("q_proj", q_proj);
  register_module("k_proj", k_proj);
  register_module("v_proj", v_proj);
  register_module("out_proj", out_proj);
}

Tensor CrossAttention::forward_with(const Tensor& x, const TensorList& beside) {
  check(beside.size() == 2, "CrossAttention: takes a context and a mask beside x, got ", beside.size(),
        " tensors");
  const Tensor &context = beside[0], &mask = beside[1];
  check(x.rank() == 3 && context.rank() == 3 && x.size(0) == context.size(0),
        "CrossAttention: needs (B, T, width) and (B, S, context_width), got ", x.shape(), " and ",
        context.shape());
  auto split = [](const Tensor& y, int64_t heads) {
    return transpose(reshape(y, {y.size(0), y.size(1), heads, y.size(2) / heads}), 1, 2);
  };
  const Tensor q = split(q_proj(x), heads_), k = split(k_proj(context), kv_heads_),
               v = split(v_proj(context), kv_heads_);
  const Tensor y = masked_attention(
      q, k, v, mask, {.causal = causal_, .window = window_, .dropout = training() ? dropout_ : 0});
  return out_proj(reshape(transpose(y, 1, 2), x.shape()));
}

std::string CrossAttention::extra_repr() const {
  return OptionText()
      .add("heads", heads_)
      .add_unless(heads_, "kv_heads", kv_heads_)
      .add_unless(false, "causal", causal_)
      .add_unless<int64_t>(0, "window", window_)
      .add_unless(0.0, "dropout", dropout_)
      .str();
}

}  // namespace reprise::nn
