// Llama against transformers: from the same weights and batch, the same logits, loss and gradients. And what each of our
// models does: recompute, caches, errors.
// slow on the device cuda
#include "reprise/nn/models/llama.h"

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/tests/nn/transformers/golden_llama.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::expect_golden;
using testing::GoldenLlama;
using testing::llama_like;
using testing::same_bits;
using testing::small_llama;
using testing::test_device;

TEST(LlamaParity, LogitsLossAndGradientsAreThoseOfTransformers) {
  for (const std::string family : {"llama.", "qwen2.", "llama3.", "linear.", "yarn.", "qwen3.", "mistral."}) {
    SCOPED_TRACE(family);
    GoldenLlama golden(family);
    Llama& model = golden.model;
    auto read = [&](const std::string& name) { return golden.read(name); };
    EXPECT_EQ(model.options().rope_theta, read("rope_theta").item());
    const Tensor logits = model(read("tokens"));
    expect_golden("logits", logits.detach(), read("logits"));
    const Tensor loss = cross_entropy(logits, read("targets"));
    expect_golden("loss", loss.detach(), read("loss"));
    loss.backward();
    for (const auto& [name, parameter] : model.state_dict())
      expect_golden("grad." + name, parameter.grad(), read("grad." + name));
  }
}

TEST(Llama, HasNoHeadOfItsOwnWhereItIsTied) {
  const NamedTensors tied = Llama(llama_like("qwen2."), test_device()).state_dict(),
                     own = Llama(small_llama(), test_device()).state_dict();
  auto names_head = [](const auto& named) { return named.first == "lm_head.weight"; };
  EXPECT_FALSE(std::ranges::any_of(tied, names_head));
  EXPECT_TRUE(std::ranges::any_of(own, names_head));
}

TEST(Llama, TakesWhatAPublishedCheckpointHolds) {
  manual_seed(6);
  Llama from(llama_like("qwen2.")), to(llama_like("qwen2."), test_device());
  NamedTensors published;
  for (const auto& [name, x] : from.state_dict()) published.emplace_back(name, x.detach().to(DType::bf16));
  published.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", ones({2}));
  published.emplace_back("lm_head.weight", published[0].second);
  load_published(to, published);
  const NamedTensors loaded = to.state_dict();
  for (size_t i = 0; i < loaded.size(); ++i) {
    const auto& [name, x] = loaded[i];
    EXPECT_TRUE(same_bits(x.detach().to(Device()), published[i].second.to(DType::f32))) << name;
  }
  published.emplace_back("model.layers.9.self_attn.q_proj.weight", ones({2}));
  expect_error([&] { load_published(to, published); },
               {"unknown: model.layers.9.self_attn.q_proj.weight (2,)"});
}

// As Qwen 3 has them, with a window.
LlamaOptions with_norms_and_window() {
  LlamaOptions options = small_llama();
  options.head_dim = 6, options.qk_norm = true, options.window = 7;
  return options;
}

void expect_same_by_recompute(const LlamaOptions& sizes, const Tensor& tokens) {
  auto gradients = [&](const char* strategy) {
    manual_seed(5);
    LlamaOptions options = sizes;
    options.layers = 4;
    options.recompute = parse_strategy(strategy);
    Llama model(options, test_device());
    cross_entropy(model(tokens), tokens).backward();
    TensorList all;
    for (const Tensor& x : model.parameters()) all.push_back(x.grad());
    return all;
  };
  const TensorList want = gradients("none");
  for (const char* strategy : {"full", "selective", "every:2", "sqrt", "offload"}) {
    const TensorList got = gradients(strategy);
    EXPECT_TRUE(same_bits(got, want)) << strategy;
  }
}

TEST(Llama, ChangesNoBitByRecompute) {
  const Tensor tokens = arange(48).reshape({2, 24}).to(test_device());
  for (const LlamaOptions& sizes : {small_llama(), with_norms_and_window()})
    expect_same_by_recompute(sizes, tokens);
}

// Keys and values of 8 bits, and norms of queries and keys in f32.
TEST(Llama, CachedLogitsUnderAutocastAreThoseOfTheWholeSequence) {
  NoGrad unrecorded;
  manual_seed(8);
  Llama model(with_norms_and_window(), test_device());
  model.eval();
  const amp::Autocast scope(test_device(), DType::bf16);
  const Tensor tokens = arange(20).reshape({2, 10}).to(test_device());
  const Tensor whole = model(tokens).to(DType::f32);
  KvCache cache(2, 2, 24);
  model.next_logits(slice(tokens, 1, 0, 6), cache);
  for (int64_t i = 6; i < 10; ++i)
    EXPECT_TRUE(testing::is_close(model.next_logits(slice(tokens, 1, i, i + 1), cache).to(DType::f32),
                                  select(whole, 1, i), 2e-2))
        << i;
}

// Greedy tokens of whole windows, as transformers gives them without a cache.
std::vector<int32_t> by_definition(Llama& model, std::vector<int32_t> ids, int64_t tokens) {
  NoGrad unrecorded;
  model.eval();
  const size_t prompt = ids.size();
  for (int64_t i = 0; i < tokens; ++i) {
    const std::vector<int64_t> window(ids.begin(), ids.end());
    const Tensor logits = model(Tensor::from(window, {1, int64_t(window.size())}, test_device()));
    const std::vector<float> last = select(select(logits, 1, -1), 0, 0).to_vector<float>();
    ids.push_back(int32_t(std::ranges::max_element(last) - last.begin()));
  }
  return {ids.begin() + std::ptrdiff_t(prompt), ids.end()};
}

TEST(Llama, GeneratesTheTokensOfWholeWindowsFromItsCache) {
  // On a device that may be emulated, what the others have together.
  const std::vector<std::string> families =
      test_device().is_cpu() ? std::vector<std::string>{"llama.", "qwen2.", "qwen3.", "mistral.", "yarn."}
                             : std::vector<std::string>{"qwen3.", "mistral."};
  for (const std::string& family : families) {
    GoldenLlama golden(family);
    Llama& model = golden.model;
    const std::vector<std::vector<int32_t>> prompts{{1}, {5, 4, 3}, {7, 7, 7, 7, 7}, {60, 0}};
    const SamplingOptions greedy{.temperature = 0};
    for (bool cache : {true, false}) {
      const auto added = generate(model, prompts, {.tokens = 18, .sampling = greedy, .cache = cache});
      for (size_t i = 0; i < prompts.size(); ++i)
        EXPECT_EQ(added[i], by_definition(model, prompts[i], 18)) << family << i << (cache ? " cached" : "");
    }
  }
}

TEST(Llama, SaysWhatDoesNotFit) {
  LlamaOptions odd = small_llama();
  odd.width = 20;  // heads of 5 channels
  expect_error([&] { Llama model(odd); },
               {"Llama: a width of 20 does not give each of 4 heads an even number"});
  LlamaOptions endless = small_llama();
  endless.context = 1'000'000'000;
  expect_error([&] { Llama model(endless); },
               {"Llama: a context of 1000000000 tokens, wanted from 1 to 16777216"});
  LlamaOptions shared = small_llama();
  shared.kv_heads = 3;
  expect_error([&] { Llama model(shared); }, {"Llama: 4 heads cannot share 3 of keys and values"});
  Llama model(small_llama(), test_device());
  expect_error(
      [&] {
        model(zeros({1, 25}, DType::i64, test_device()));
      },
      {"Llama: sequence of 25 tokens, the context holds 24"});
  LlamaOptions odd_head = small_llama();
  odd_head.head_dim = 5;
  expect_error([&] { Llama of(odd_head); },
               {"Llama: a head_dim of 5, wanted an even number of at most 65536"});
  LlamaOptions backward = small_llama();
  backward.window = -2;
  expect_error([&] { Llama of(backward); }, {"Llama: window must be at least 0, got -2"});
  LlamaOptions still = small_llama();
  still.rope_theta = 1, still.rope_scaling = parse_rope_scaling("yarn:4:32:1:64");
  expect_error([&] { Llama of(still); }, {"Llama: rope_scaling: yarn needs a rope_theta above 1, got 1"});
  KvCache cache(2, 1, 24);
  NoGrad unrecorded;
  expect_error(
      [&] {
        model.next_logits(zeros({1, 1}, DType::i64, test_device()), cache);
      },
      {"Llama: a cache needs eval mode"});
  model.eval();
  expect_error(
      [&] {
        model.next_logits(zeros({2, 1}, DType::i64, test_device()), cache);
      },
      {"Llama: row 1 of a cache of 1"});
}

// By transformers 5.23.0: ROPE_INIT_FUNCTIONS["yarn"] of a LlamaConfig, in f32.
TEST(RopeScaling, YarnsTurnsAreThoseOfTransformers) {
  struct Case {
    const char* scaling;
    int64_t head_dim;
    double theta;
    std::vector<double> turns;
    double attention_factor;
  };
  const Case cases[] = {{"yarn:4:32:1:32768",
                         16,
                         1e4,
                         {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00256935088,
                          0.000625000044, 0.000138349656},
                         1.138629436111989},
                        // mscale 1, mscale_all_dim 0.7; the ramp is not truncated
                        {"yarn:32:24:2:4096:1.0836729039678816:0",
                         12,
                         150000,
                         {1, 0.137188628, 0.0138976537, 8.0687154e-05, 1.10693582e-05, 1.51859081e-06},
                         1.0836729039678816},
                        {"yarn:8:32:1:16:1.25", 8, 500, {1, 0.02643428, 0.00559017016, 0.00118217699}, 1.25}};
  for (const Case& c : cases) {
    const RopeScaling scaling = parse_rope_scaling(c.scaling);
    const std::vector<double> got = turns_of(c.head_dim, c.theta, scaling);
    ASSERT_EQ(got.size(), c.turns.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i] / c.turns[i], 1, 1e-6) << c.scaling << ' ' << i;
    EXPECT_NEAR(cosine_scale(scaling), c.attention_factor, 1e-12);
    const RotaryTables tables(3, c.head_dim, c.theta, scaling);
    EXPECT_NEAR(tables.cosines.to_vector<float>()[0], c.attention_factor, 1e-6);
    EXPECT_NEAR(tables.sines.to_vector<float>()[size_t(c.head_dim / 2)], c.attention_factor * std::sin(1.0),
                1e-6);
  }
}

TEST(RopeScaling, IsWrittenAndReadBack) {
  for (const char* text : {"none", "linear:4", "llama3:8:1:4:8192", "llama3:32:0.5:4.5:2048",
                           "yarn:4:32:1:32768:0:1", "yarn:40:24.5:2:4096:1.25:0"})
    EXPECT_EQ(to_string(parse_rope_scaling(text)), text);
  EXPECT_EQ(to_string(parse_rope_scaling("yarn:4:32:1:32768")), "yarn:4:32:1:32768:0:1");
  for (const char* text :
       {"", "yarn:4", "yarn:4:32:1:0", "yarn:4:32:1:8:0:1:2", "linear", "linear:", "linear:x", "linear:1:2",
        "llama3:8:1:4", "none:1", "llama3:8:1:4:0", "llama3:8:1:4:2000000000", "llama3:8:1:4:8192:"})
    expect_error([&] { parse_rope_scaling(text); }, {"rope_scaling: ", "is not none, linear:FACTOR"});
  for (const char* text :
       {"linear:0", "linear:-1", "linear:inf", "llama3:8:4:4:8192", "llama3:8:0:4:8192",
        "llama3:8:1:inf:8192", "yarn:0:32:1:64", "yarn:4:1:2:64", "yarn:4:32:0:64", "yarn:4:32:1:64:-1"}) {
    LlamaOptions options = small_llama();
    options.rope_scaling = parse_rope_scaling(text);
    expect_error([&] { Llama model(options); }, {"Llama: rope_scaling"});
  }
}

}  // namespace
}  // namespace reprise::nn
