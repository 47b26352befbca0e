// A Gpt whose options make it a Llama, against transformers' Llamas: logits, loss and gradients from the same weights and batch.
// And what holds of every Gpt: names, recompute, caches, counts.
// slow on the device cuda
#include <vector>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/nn/transformers/golden_llama.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::expect_golden;
using testing::GoldenLlama;
using testing::is_close;
using testing::llama_like;
using testing::same_bits;
using testing::small_llama;
using testing::test_device;

GptOptions gpt_like(const LlamaOptions& o) {
  return {.vocab_size = o.vocab_size,
          .context = o.context,
          .layers = o.layers,
          .heads = o.heads,
          .kv_heads = o.kv_heads,
          .head_dim = o.head_dim,
          .width = o.width,
          .hidden = o.hidden,
          .gated = true,
          .bias = false,
          .norm = NormKind::rms,
          .norm_eps = o.norm_eps,
          .qk_norm = o.qk_norm,
          .window = o.window,
          .rotary = true,
          .rope_theta = o.rope_theta,
          .rope_scaling = o.rope_scaling,
          .tied = o.tied,
          .activation = Activation::silu};
}

// What a Gpt has under `name`, from what a Llama has; `kind` is "grad." or nothing.
Tensor golden_for(const GoldenLlama& golden, const std::string& kind, const std::string& name) {
  static const std::pair<const char*, std::vector<std::string>> places[] = {
      {"ln_1", {"input_layernorm"}},
      {"attn.c_attn", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
      {"attn.q_norm", {"self_attn.q_norm"}},
      {"attn.k_norm", {"self_attn.k_norm"}},
      {"attn.c_proj", {"self_attn.o_proj"}},
      {"ln_2", {"post_attention_layernorm"}},
      {"mlp.fc1_g", {"mlp.gate_proj"}},
      {"mlp.fc1_x", {"mlp.up_proj"}},
      {"mlp.c_proj", {"mlp.down_proj"}}};
  auto read = [&](const std::string& theirs) { return golden.read(kind + theirs + ".weight"); };
  const std::string part = name.substr(0, name.rfind('.'));
  if (part == "wte") return read("model.embed_tokens");
  if (part == "ln_f") return read("model.norm");
  if (part == "lm_head") return read("lm_head");
  for (const auto& [ours, theirs] : places) {
    if (!part.ends_with(ours)) continue;
    TensorList stacked;
    for (const std::string& piece : theirs)
      stacked.push_back(read("model.layers." + part.substr(2, part.find('.', 2) - 1) + piece));
    return concat(stacked, 0);
  }
  ADD_FAILURE() << "nothing for " << name;
  return {};
}

std::unique_ptr<Gpt> with_weights_of(const GoldenLlama& golden) {
  auto model = std::make_unique<Gpt>(gpt_like(golden.model.options()), test_device());
  NamedTensors state;
  for (const auto& [name, parameter] : model->state_dict())
    state.emplace_back(name, golden_for(golden, "", name));
  model->load_state_dict(state);
  return model;
}

TEST(LlamaLikeGpt, LogitsLossAndGradientsAreThoseOfTransformers) {
  for (const std::string family : {"llama.", "llama3.", "linear.", "yarn.", "qwen3.", "mistral."}) {
    SCOPED_TRACE(family);
    const GoldenLlama golden(family);
    const auto model = with_weights_of(golden);
    const Tensor logits = (*model)(golden.read("tokens"));
    expect_golden("logits", logits.detach(), golden.read("logits"));
    const Tensor loss = cross_entropy(logits, golden.read("targets"));
    expect_golden("loss", loss.detach(), golden.read("loss"));
    loss.backward();
    for (const auto& [name, parameter] : model->state_dict())
      expect_golden(name, parameter.grad(), golden_for(golden, "grad.", name));
  }
}

TEST(LlamaLikeGpt, HasNoPositionsAndAHeadOfItsOwn) {
  const Gpt model(gpt_like(small_llama()), test_device());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.state_dict())
    if (!name.starts_with("h.1.")) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"wte.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight",
                                             "h.0.attn.c_proj.weight", "h.0.ln_2.weight",
                                             "h.0.mlp.fc1_g.weight", "h.0.mlp.fc1_x.weight",
                                             "h.0.mlp.c_proj.weight", "ln_f.weight", "lm_head.weight"}));
}

// As Qwen 3 has them, with a window and dropout.
GptOptions with_everything() {
  LlamaOptions llama = small_llama();
  llama.head_dim = 6, llama.qk_norm = true, llama.window = 7;
  GptOptions options = gpt_like(llama);
  options.dropout = 0.2;
  return options;
}

TEST(LlamaLikeGpt, ChangesNoBitByRecompute) {
  const Tensor tokens = arange(48).reshape({2, 24}).to(test_device());
  for (const bool low : {false, true}) {
    auto gradients = [&](const char* strategy) {
      manual_seed(5);
      GptOptions options = with_everything();
      options.layers = 4;
      options.recompute = parse_strategy(strategy);
      Gpt model(options, test_device());
      {
        const amp::Autocast scope(test_device(), DType::bf16, {.enabled = low});
        cross_entropy(model(tokens), tokens).backward();
      }
      TensorList all;
      for (const Tensor& x : model.parameters()) all.push_back(x.grad());
      return all;
    };
    const TensorList want = gradients("none");
    for (const char* strategy : {"full", "selective", "every:2", "sqrt", "offload"}) {
      const TensorList got = gradients(strategy);
      EXPECT_TRUE(same_bits(got, want)) << strategy << (low ? " bf16" : "");
    }
  }
}

TEST(LlamaLikeGpt, GeneratesTheTokensOfWholeWindowsFromItsCache) {
  for (const std::string family : {"qwen3.", "mistral."}) {
    GoldenLlama golden(family);
    const auto model = with_weights_of(golden);
    const std::vector<std::vector<int32_t>> prompts{{1}, {5, 4, 3}, {7, 7, 7, 7, 7}, {60, 0}};
    const GenerateOptions whole{.tokens = 18, .sampling = {.temperature = 0}, .cache = false};
    GenerateOptions cached = whole;
    cached.cache = true;
    const auto want = generate(*model, prompts, whole);
    EXPECT_EQ(generate(*model, prompts, cached), want) << family;
    EXPECT_EQ(want, generate(golden.model, prompts, whole)) << family;
  }
}

TEST(LlamaLikeGpt, CountsWhatIsInProducts) {
  GptOptions options{
      .vocab_size = 100, .context = 10, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .hidden = 24};
  options.gated = options.rotary = true, options.tied = options.bias = false;
  options.norm = NormKind::rms, options.window = 6;
  const double block = 16 * (4 + 2 * 2) * 4 + 16 * 16 + 3 * 16 * 24 + 2 * 16;  // with its norms, as of GPT-2
  EXPECT_EQ(Gpt(options).flops_per_token(), 6 * (100 * 16 + 2 * block + 16) + 12.0 * 2 * 16 * 6);
}

TEST(LlamaLikeGpt, SaysWhatDoesNotFit) {
  GptOptions odd = gpt_like(small_llama());
  odd.head_dim = 5;
  expect_error([&] { Gpt model(odd); }, {"Gpt: a head_dim of 5, wanted an even number"});
  GptOptions none = gpt_like(small_llama());
  none.heads = 0;
  expect_error([&] { Gpt model(none); }, {"Gpt: width 16 is not a multiple of 0 heads"});
  GptOptions still = gpt_like(small_llama());
  still.rope_theta = 0;
  expect_error([&] { Gpt model(still); }, {"Gpt: rope_theta must be above 0, got 0"});
  Gpt model(gpt_like(small_llama()), test_device());
  expect_error(
      [&] {
        model.load_state_dict(
            Gpt(GptOptions{.vocab_size = 61, .context = 24, .layers = 2, .heads = 4, .width = 16})
                .state_dict());
      },
      {"missing: ", "lm_head.weight", "unknown: ", "wpe.weight"});
}

}  // namespace
}  // namespace reprise::nn
