#include "reprise/nn/models/llama.h"

#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/autograd/ops/attention/rotary.h"
#include "reprise/nn/init.h"
#include "reprise/nn/transformers/cache_positions.h"
#include "reprise/nn/transformers/mlp.h"

namespace reprise::nn {
namespace {

int64_t kv_heads_of(const LlamaOptions& options) {
  return options.kv_heads > 0 ? options.kv_heads : options.heads;
}
int64_t hidden_of(const LlamaOptions& options) {
  return options.hidden > 0 ? options.hidden : default_hidden(options.width, true);
}

const LlamaOptions& checked(const LlamaOptions& o) {
  check(o.layers >= 1 && o.context >= 1, "Llama: needs at least one layer and position, got ", o.layers,
        " and ", o.context);
  check(o.heads >= 1 && o.width >= 1 && (o.head_dim > 0 || o.width % (2 * o.heads) == 0),
        "Llama: a width of ", o.width, " does not give each of ", o.heads,
        " heads an even number of channels");
  check(o.head_dim >= 0, "Llama: head_dim must be at least 0, got ", o.head_dim);
  check(o.kv_heads >= 0 && o.heads % kv_heads_of(o) == 0, "Llama: ", o.heads, " heads cannot share ",
        o.kv_heads, " of keys and values");
  check(o.hidden >= 0, "Llama: hidden must be at least 0, got ", o.hidden);
  check_rotary("Llama", o.context, head_dim_of(o), o.rope_theta, o.rope_scaling);
  check(o.window >= 0, "Llama: window must be at least 0, got ", o.window);
  return o;
}

// (B, T, heads D) -> (B, T, heads, D)
Tensor split_heads(const Tensor& x, int64_t heads) {
  return reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads});
}

}  // namespace

int64_t head_dim_of(const LlamaOptions& options) {
  return options.head_dim > 0 ? options.head_dim : options.width / options.heads;
}

LlamaBlock::LlamaBlock(const LlamaOptions& o, std::shared_ptr<RotaryTables> tables, Device device)
    : input_layernorm(o.width, {.eps = o.norm_eps}, device),
      q_proj(o.width, o.heads * head_dim_of(o), {.bias = o.qkv_bias, .init_stddev = transformer_stddev},
             device),
      k_proj(o.width, kv_heads_of(o) * head_dim_of(o),
             {.bias = o.qkv_bias, .init_stddev = transformer_stddev}, device),
      v_proj(o.width, kv_heads_of(o) * head_dim_of(o),
             {.bias = o.qkv_bias, .init_stddev = transformer_stddev}, device),
      o_proj(o.heads * head_dim_of(o), o.width, {.bias = false, .init_stddev = transformer_stddev}, device),
      post_attention_layernorm(o.width, {.eps = o.norm_eps}, device),
      gate_proj(o.width, hidden_of(o), {.bias = false, .init_stddev = transformer_stddev}, device),
      up_proj(o.width, hidden_of(o), {.bias = false, .init_stddev = transformer_stddev}, device),
      down_proj(hidden_of(o), o.width, {.bias = false, .init_stddev = transformer_stddev}, device),
      tables_(std::move(tables)),
      heads_(o.heads),
      kv_heads_(kv_heads_of(o)),
      window_(o.window) {
  register_module("input_layernorm", input_layernorm);
  register_module("self_attn.q_proj", q_proj);
  register_module("self_attn.k_proj", k_proj);
  register_module("self_attn.v_proj", v_proj);
  if (o.qk_norm) {
    const RmsNormOptions norm{.eps = o.norm_eps};
    register_module("self_attn.q_norm", q_norm.emplace(head_dim_of(o), norm, device));
    register_module("self_attn.k_norm", k_norm.emplace(head_dim_of(o), norm, device));
  }
  register_module("self_attn.o_proj", o_proj);
  register_module("post_attention_layernorm", post_attention_layernorm);
  register_module("mlp.gate_proj", gate_proj);
  register_module("mlp.up_proj", up_proj);
  register_module("mlp.down_proj", down_proj);
  register_module("rotary", *tables_);
}

template <class Attend>
Tensor LlamaBlock::joined(const Tensor& x, const RotaryAngles& angles, Attend&& attend) const {
  const Tensor normed = input_layernorm.forward(x, for_product(x));
  auto turned = [&](const Tensor& y, int64_t heads, const std::optional<RmsNorm>& norm) {
    const Tensor split = split_heads(y, heads);
    return rotary(transpose(norm ? (*norm)(split) : split, 1, 2), angles.cosines, angles.sines,
                  {.out = for_product(split).out});
  };
  const Tensor q = turned(q_proj(normed), heads_, q_norm), k = turned(k_proj(normed), kv_heads_, k_norm),
               v = transpose(split_heads(v_proj(normed), kv_heads_), 1, 2);  // (B, heads, T, D)
  const Tensor joined_heads = transpose(attend(q, k, v), 1, 2);              // (B, T, heads, D)
  const Tensor seen = reshape(joined_heads, {x.size(0), x.size(1), q.size(1) * q.size(3)});
  const Tensor middle = o_proj.forward(seen, {.residual = x});
  const Tensor y = post_attention_layernorm.forward(middle, for_product(middle));
  return down_proj.forward(swiglu(gate_proj(y), up_proj(y)), {.residual = middle});
}

Tensor LlamaBlock::forward(const Tensor& x) {
  return joined(x, tables_->first(x.size(1)), [this](const Tensor& q, const Tensor& k, const Tensor& v) {
    return masked_attention(q, k, v, Tensor(), {.causal = true, .window = window_});
  });
}

Tensor LlamaBlock::step(const Tensor& x, const KvPlace& place) const {
  check_unchanged("step");
  return joined(x, place.angles, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return place.cache.attend(place.layer, place.first_row, q, k, v, window_);
  });
}

Llama::Llama(const LlamaOptions& options, Device device)
    : embed_tokens(options.vocab_size, options.width, {.init_stddev = transformer_stddev}, device),
      layers({.name = "layers",
              .alike = true,
              .before = [this](const Tensor& tokens) { return embed_tokens(tokens); },
              .after = [this](const Tensor& x, const Tensor& tokens) { return loss_after(x, tokens); },
              .model = this}),
      norm(options.width, {.eps = options.norm_eps}, device),
      options_(checked(options)),
      tables_(std::make_shared<RotaryTables>(options.context, head_dim_of(options), options.rope_theta,
                                             options.rope_scaling, device)) {
  if (options.tied)
    register_fixed("embed_tokens", embed_tokens);
  else
    register_module("embed_tokens", embed_tokens);
  register_module("layers", layers);
  register_module("norm", norm);
  for (int64_t i = 0; i < options.layers; ++i) layers.add<LlamaBlock>(options, tables_, device);
  if (!options.tied) {
    lm_head.emplace(options.width, options.vocab_size,
                    LinearOptions{.bias = false, .init_stddev = transformer_stddev}, device);
    register_module("lm_head", *lm_head);
  }
  layers.set_recompute(options.recompute);
}

Tensor Llama::stream(const Tensor& tokens) const {
  check(tokens.rank() == 2, "Llama: tokens must be (B, T), got ", tokens.shape());
  const int64_t length = tokens.size(1);
  check(length >= 1 && length <= options_.context, "Llama: sequence of ", length,
        " tokens, the context holds ", options_.context);
  return layers(tokens);
}

Tensor Llama::features(const Tensor& tokens) const {
  check_unchanged("features");
  return norm(stream(tokens));
}

Tensor Llama::logits(const Tensor& x) const {
  const Tensor y = norm.forward(x, for_product(x));
  return lm_head ? (*lm_head)(y) : linear(y, embed_tokens.weight);
}

// For the planner; which targets the logits have changes no cost.
Tensor Llama::loss_after(const Tensor& x, const Tensor& tokens) const {
  return cross_entropy(logits(x), Tensor::zeros(tokens.shape(), DType::i64, tokens.device()));
}

Tensor Llama::forward(const Tensor& tokens) { return logits(stream(tokens)); }

Tensor Llama::next_logits(const Tensor& tokens) const {
  if (is_changed()) return select((*this)(tokens), 1, -1);
  return logits(select(stream(tokens), 1, -1));
}

Tensor Llama::next_logits(const Tensor& tokens, KvCache& cache, int64_t first_row) const {
  check_unchanged("next_logits");
  layers.check_unchanged("next_logits");
  check(!training(), "Llama: a cache needs eval mode");
  const RotaryAngles angles =
      tables_->at(cache_positions("Llama", cache, tokens, first_row, options_.context));
  Tensor x = embed_tokens(tokens);
  for (int64_t layer = 0; layer < layers.size(); ++layer)
    x = layers.at<LlamaBlock>(std::to_string(layer)).step(x, {cache, layer, first_row, angles});
  cache.advance(first_row, tokens.size(0), tokens.size(1));
  return logits(select(x, 1, -1));
}

NamedTensors Llama::state_dict() const {
  NamedTensors state = Module::state_dict();
  for (auto& [name, tensor] : state)
    if (!name.starts_with("lm_head")) name = "model." + name;
  return state;
}

void load_published(Llama& model, const NamedTensors& tensors) {
  const DType dtype = model.embed_tokens.weight.dtype();
  NamedTensors state;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(".rotary_emb.inv_freq") || (name == "lm_head.weight" && !model.lm_head)) continue;
    state.emplace_back(name, is_floating(tensor.dtype()) ? tensor.to(dtype) : tensor);
  }
  model.load_state_dict(state);
}

}  // namespace reprise::nn
