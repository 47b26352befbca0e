// Llama against transformers: from the same weights and batch, the same logits, loss and gradients
// (tools/parity_llama.py made the golden file). And what each of our models does: recompute, caches, errors.
#include "reprise/nn/models/llama.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/generation/generate.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;

LlamaOptions small() {
  return {.vocab_size = 61, .context = 24, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .hidden = 24};
}

LlamaOptions like(const std::string& family) {
  LlamaOptions options = small();
  if (family == "qwen2.") options.rope_theta = 500000, options.tied = true, options.qkv_bias = true;
  if (family == "llama3." || family == "linear.")
    options.heads = 2, options.kv_heads = 1, options.rope_theta = 500;
  if (family == "llama3.") options.rope_scaling = parse_rope_scaling("llama3:8:1:4:64");
  if (family == "linear.") options.rope_scaling = parse_rope_scaling("linear:4");
  return options;
}

// With transformers' weights, which are far from those of a new model: what a token sees of others changes the next one.
struct Golden {
  explicit Golden(const std::string& the_family) : family(the_family) {
    NamedTensors state;
    for (const auto& [name, parameter] : model.state_dict()) state.emplace_back(name, read(name));
    model.load_state_dict(state);
  }
  Tensor read(const std::string& name) const { return file.read(family + name).to(test_device()); }

  std::string family;
  io::SafetensorsFile file{testing::golden_path("llama_parity.safetensors")};
  Llama model{like(family), test_device()};
};

// Relative to the largest value of the tensor.
void expect_close(const std::string& name, const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::isnan(a[i]) ? a[i] : std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  EXPECT_LE(difference, 1e-5 * largest) << name;
}

TEST(LlamaParity, LogitsLossAndGradientsAreThoseOfTransformers) {
  for (const std::string family : {"llama.", "qwen2.", "llama3.", "linear."}) {
    SCOPED_TRACE(family);
    Golden golden(family);
    Llama& model = golden.model;
    auto read = [&](const std::string& name) { return golden.read(name); };
    EXPECT_EQ(model.options().rope_theta, read("rope_theta").item());
    const Tensor logits = model(read("tokens"));
    expect_close("logits", logits.detach(), read("logits"));
    const Tensor loss = cross_entropy(logits, read("targets"));
    expect_close("loss", loss.detach(), read("loss"));
    loss.backward();
    for (const auto& [name, parameter] : model.state_dict())
      expect_close("grad." + name, parameter.grad(), read("grad." + name));
  }
}

TEST(Llama, HasNoHeadOfItsOwnWhereItIsTied) {
  const NamedTensors tied = Llama(like("qwen2."), test_device()).state_dict(),
                     own = Llama(small(), test_device()).state_dict();
  auto names_head = [](const auto& named) { return named.first == "lm_head.weight"; };
  EXPECT_FALSE(std::ranges::any_of(tied, names_head));
  EXPECT_TRUE(std::ranges::any_of(own, names_head));
}

TEST(Llama, TakesWhatAPublishedCheckpointHolds) {
  manual_seed(6);
  Llama from(like("qwen2.")), to(like("qwen2."), test_device());
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

TEST(Llama, ChangesNoBitByRecompute) {
  const Tensor tokens = arange(48).reshape({2, 24}).to(test_device());
  auto gradients = [&](const char* strategy) {
    manual_seed(5);
    LlamaOptions options = small();
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
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << strategy << ' ' << i;
  }
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
  for (const std::string family : {"llama.", "qwen2."}) {
    Golden golden(family);
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
  LlamaOptions odd = small();
  odd.width = 20;  // heads of 5 channels
  expect_error([&] { Llama model(odd); },
               {"Llama: a width of 20 does not give each of 4 heads an even number"});
  LlamaOptions endless = small();
  endless.context = 1'000'000'000;
  expect_error([&] { Llama model(endless); }, {"Llama: a context of 1000000000; at most 16777216 positions"});
  LlamaOptions shared = small();
  shared.kv_heads = 3;
  expect_error([&] { Llama model(shared); }, {"Llama: 4 heads cannot share 3 of keys and values"});
  Llama model(small(), test_device());
  expect_error(
      [&] {
        model(zeros({1, 25}, DType::i64, test_device()));
      },
      {"Llama: sequence of 25 tokens, the context holds 24"});
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

TEST(RopeScaling, IsWrittenAndReadBack) {
  for (const char* text : {"none", "linear:4", "llama3:8:1:4:8192", "llama3:32:0.5:4.5:2048"})
    EXPECT_EQ(to_string(parse_rope_scaling(text)), text);
  for (const char* text : {"", "yarn:4", "linear", "linear:", "linear:x", "linear:1:2", "llama3:8:1:4",
                           "none:1", "llama3:8:1:4:0", "llama3:8:1:4:2000000000", "llama3:8:1:4:8192:"})
    expect_error([&] { parse_rope_scaling(text); }, {"rope_scaling: ", "is not none, linear:FACTOR"});
  for (const char* text : {"linear:0", "linear:-1", "linear:inf", "llama3:8:4:4:8192", "llama3:8:0:4:8192",
                           "llama3:8:1:inf:8192"}) {
    LlamaOptions options = small();
    options.rope_scaling = parse_rope_scaling(text);
    expect_error([&] { Llama model(options); }, {"Llama: rope_scaling"});
  }
}

}  // namespace
}  // namespace reprise::nn
