// The GPT-2 model.
#include "reprise/nn/models/gpt.h"

#include <cmath>
#include <string_view>

#include "reprise/nn/cache_positions.h"

namespace reprise::nn {
namespace {

constexpr double init_stddev = 0.02;

// The parts of a block: our name and GPT-2's.
constexpr std::pair<std::string_view, std::string_view> gpt2_names[] = {
    {".norm1.", ".ln_1."}, {".attn.qkv.", ".attn.c_attn."}, {".attn.proj.", ".attn.c_proj."},
    {".norm2.", ".ln_2."}, {".mlp.fc1.", ".mlp.c_fc."},     {".mlp.fc2.", ".mlp.c_proj."}};

BlockOptions block_options(const GptOptions& options) {
  return {.bias = options.bias,
          .dropout = options.dropout,
          .init_stddev = init_stddev,
          .output_stddev = init_stddev / std::sqrt(2.0 * double(options.layers)),
          .activation = options.activation};
}

}  // namespace

Gpt::Gpt(const GptOptions& options, Device device)
    : wte(options.vocab_size, options.width, {.init_stddev = init_stddev}, device),
      wpe(options.context, options.width, {.init_stddev = init_stddev}, device),
      drop(options.dropout),
      h({.name = "h",
         .alike = true,
         .before = [this](const Tensor& tokens) { return embed(tokens); },
         .after = [this](const Tensor& x, const Tensor& tokens) { return loss_after(x, tokens); },
         .model = this}),
      ln_f(options.width, {.bias = options.bias}, device),
      options_(options) {
  check(options.layers >= 1, "Gpt: needs at least one layer, got ", options.layers);
  register_fixed("wte", wte);
  register_fixed("wpe", wpe);
  register_module("drop", drop);
  register_module("h", h);
  register_module("ln_f", ln_f);
  for (int64_t i = 0; i < options.layers; ++i)
    h.add<TransformerBlock>(options.width, options.heads, block_options(options), device);
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
  return drop(wte(tokens) + slice(wpe.weight, 0, 0, tokens.size(1)));  // (B, T, width)
}

// The cross entropy of all logits; which targets they have changes no cost.
Tensor Gpt::loss_after(const Tensor& x, const Tensor& tokens) const {
  Tensor targets = Tensor::zeros(tokens.shape(), DType::i64, tokens.device());
  return cross_entropy(logits(x), targets);
}

Tensor Gpt::logits(const Tensor& x) const { return linear(ln_f.forward(x, for_product(x)), wte.weight); }

Tensor Gpt::forward(const Tensor& tokens) { return logits(stream(tokens)); }

Tensor Gpt::next_logits(const Tensor& tokens) const {
  if (is_changed()) return select((*this)(tokens), 1, -1);
  return logits(select(stream(tokens), 1, -1));
}  // of (B, width)

Tensor Gpt::next_logits(const Tensor& tokens, KvCache& cache, int64_t first_row) const {
  check_unchanged("next_logits");
  drop.check_unchanged("next_logits");
  h.check_unchanged("next_logits");
  Tensor x = wte(tokens) + wpe(cache_positions("Gpt", cache, tokens, first_row, options_.context));
  for (int64_t layer = 0; layer < h.size(); ++layer)
    x = h.at<TransformerBlock>(std::to_string(layer)).step(x, {cache, layer, first_row});
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
  double matrices = double(parameter_count() - options_.context * options_.width);
  double attention = 12.0 * double(options_.layers * options_.width) * double(options_.context);
  return 6 * matrices + attention;
}

}  // namespace reprise::nn
