// The GPT-2 model.
#include "reprise/nn/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "reprise/nn/init.h"
#include "reprise/nn/transformers/cache_positions.h"

namespace reprise::nn {
namespace {

// The parts of a block: our name and GPT-2's.
constexpr std::pair<std::string_view, std::string_view> gpt2_names[] = {
    {".norm1.", ".ln_1."}, {".attn.qkv.", ".attn.c_attn."}, {".attn.proj.", ".attn.c_proj."},
    {".norm2.", ".ln_2."}, {".mlp.fc1.", ".mlp.c_fc."},     {".mlp.fc2.", ".mlp.c_proj."}};

BlockOptions block_options(const GptOptions& options, const std::shared_ptr<RotaryTables>& rotary) {
  return {.kv_heads = options.kv_heads,
          .head_dim = options.head_dim,
          .hidden = options.hidden,
          .gated = options.gated,
          .window = options.window,
          .bias = options.bias,
          .dropout = options.dropout,
          .norm = options.norm,
          .norm_eps = options.norm_eps,
          .qk_norm = options.qk_norm,
          .rotary = rotary,
          .init_stddev = transformer_stddev,
          .output_stddev = transformer_stddev / std::sqrt(2.0 * double(options.layers)),
          .activation = options.activation};
}

int64_t head_dim_of(const GptOptions& o) {
  if (o.head_dim > 0) return o.head_dim;
  check(o.heads >= 1 && o.width % o.heads == 0, "Gpt: width ", o.width, " is not a multiple of ", o.heads,
        " heads");
  return o.width / o.heads;
}

std::shared_ptr<RotaryTables> rotary_of(const GptOptions& o, Device device) {
  if (!o.rotary) return {};
  const int64_t head_dim = head_dim_of(o);
  check_rotary("Gpt", o.context, head_dim, o.rope_theta, o.rope_scaling);
  return std::make_shared<RotaryTables>(o.context, head_dim, o.rope_theta, o.rope_scaling, device);
}

}  // namespace

Gpt::Gpt(const GptOptions& options, Device device)
    : wte(options.vocab_size, options.width, {.init_stddev = transformer_stddev}, device),
      drop(options.dropout),
      h({.name = "h",
         .alike = true,
         .before = [this](const Tensor& tokens) { return embed(tokens); },
         .after = [this](const Tensor& x, const Tensor& tokens) { return loss_after(x, tokens); },
         .model = this}),
      ln_f(options.norm, options.width, {.eps = options.norm_eps, .bias = options.bias}, device),
      options_(options),
      rotary_(rotary_of(options, device)) {
  check(options.layers >= 1, "Gpt: needs at least one layer, got ", options.layers);
  if (options.tied)
    register_fixed("wte", wte);
  else
    register_module("wte", wte);
  if (!options.rotary) {
    wpe.emplace(options.context, options.width, EmbeddingOptions{.init_stddev = transformer_stddev}, device);
    register_fixed("wpe", *wpe);
  }
  register_module("drop", drop);
  register_module("h", h);
  register_module("ln_f", ln_f);
  for (int64_t i = 0; i < options.layers; ++i)
    h.add<TransformerBlock>(options.width, options.heads, block_options(options, rotary_), device);
  if (!options.tied) {
    lm_head.emplace(options.width, options.vocab_size,
                    LinearOptions{.bias = false, .init_stddev = transformer_stddev}, device);
    register_module("lm_head", *lm_head);
  }
  h.set_recompute(options.recompute);
}

Tensor Gpt::stream(const Tensor& tokens) const {
  check(tokens.rank() == 2, "Gpt: tokens must be (B, T), got ", tokens.shape());
  int64_t length = tokens.size(1);
  check(length >= 1 && length <= options_.context, "Gpt: sequence of ", length, " tokens, the context holds ",
        options_.context);
  return h(tokens);
}

Tensor Gpt::features(const Tensor& tokens) const {
  check_unchanged("features");
  return ln_f(stream(tokens));
}

Tensor Gpt::embed(const Tensor& tokens) const {
  const Tensor x = wte(tokens);  // (B, T, width)
  return drop(wpe ? x + slice(wpe->weight, 0, 0, tokens.size(1)) : x);
}

// The cross entropy of all logits; which targets they have changes no cost.
Tensor Gpt::loss_after(const Tensor& x, const Tensor& tokens) const {
  Tensor targets = Tensor::zeros(tokens.shape(), DType::i64, tokens.device());
  return cross_entropy(logits(x), targets);
}

Tensor Gpt::logits(const Tensor& x) const {
  const Tensor y = ln_f.forward(x, for_product(x));
  return lm_head ? (*lm_head)(y) : linear(y, wte.weight);
}

Tensor Gpt::forward(const Tensor& tokens) { return logits(stream(tokens)); }

Tensor Gpt::next_logits(const Tensor& tokens) const {
  if (is_changed()) return select((*this)(tokens), 1, -1);
  return logits(select(stream(tokens), 1, -1));  // of (B, width)
}

Tensor Gpt::next_logits(const Tensor& tokens, KvCache& cache, int64_t first_row) const {
  check_unchanged("next_logits");
  drop.check_unchanged("next_logits");
  h.check_unchanged("next_logits");
  const Tensor positions = cache_positions("Gpt", cache, tokens, first_row, options_.context);
  const RotaryAngles angles = rotary_ ? rotary_->at(positions) : RotaryAngles();
  Tensor x = wpe ? wte(tokens) + (*wpe)(positions) : wte(tokens);
  for (int64_t layer = 0; layer < h.size(); ++layer)
    x = h.at<TransformerBlock>(std::to_string(layer)).step(x, {cache, layer, first_row, angles});
  cache.advance(first_row, tokens.size(0), tokens.size(1));
  return logits(select(x, 1, -1));
}

NamedTensors Gpt::state_dict() const {
  NamedTensors state = Module::state_dict();
  for (auto& [name, tensor] : state)
    for (auto [ours, gpt2] : gpt2_names)
      if (size_t at = name.find(ours); at != std::string::npos) name.replace(at, ours.size(), gpt2);
  return state;
}

double Gpt::flops_per_token() const {
  const GptOptions& o = options_;
  int64_t looked_up = wpe ? wpe->weight.numel() : 0;
  if (lm_head) looked_up += wte.weight.numel();
  const int64_t seen = o.window > 0 ? std::min(o.window, o.context) : o.context;
  const double attention = 12.0 * double(o.layers * o.heads * head_dim_of(o)) * double(seen);
  return 6 * double(parameter_count() - looked_up) + attention;
}

}  // namespace reprise::nn
