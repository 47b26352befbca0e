// Gpt: its function, size and initialisation.
#include "reprise/nn/models/gpt.h"

#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/tests/nn/composite_gpt.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::composite_gpt;
using testing::composite_loss;
using testing::expect_error;
using testing::f64_copies;
using testing::is_close;
using testing::odd_gpt;
using testing::random_tokens;
using testing::randomize;
using testing::same_bits;
using testing::Weights;

TEST(Gpt, AgreesWithItsCompositeInLogitsLossAndEveryGradient) {
  for (bool bias : {true, false})
    for (int64_t length : {1, 7, 11}) {
      GptOptions options = odd_gpt();
      options.bias = bias;
      Gpt model(options);
      randomize(model);
      Weights w = f64_copies(model);
      Tensor tokens = random_tokens({3, length}, 23, 1), targets = random_tokens({3, length}, 23, 2);
      Tensor logits = model(tokens);
      EXPECT_EQ(logits.shape(), (Shape{3, length, 23}));
      // f32 roundings through two blocks; logits and gradients are compared to their largest element.
      EXPECT_TRUE(is_close(logits, composite_gpt(w, options, tokens), 1e-5)) << "length " << length;
      Tensor loss = cross_entropy(logits, targets), want = composite_loss(w, options, tokens, targets);
      EXPECT_NEAR(loss.item(), want.item(), 1e-5);
      loss.backward();
      want.backward();
      for (auto& [name, parameter] : model.named_parameters())
        EXPECT_TRUE(is_close(parameter.grad(), w.at(name).grad(), 1e-5)) << "gradient of " << name;
    }
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

std::vector<std::string> with_biases(const std::vector<std::string>& layers) {
  std::vector<std::string> names{"wte.weight", "wpe.weight"};
  for (const std::string& layer : layers)
    for (const char* part : {".weight", ".bias"}) names.push_back(layer + part);
  return names;
}

TEST(Gpt, HasGpt2sNamesInFilesAndTimmsInMemory) {
  Gpt model({.vocab_size = 7, .context = 3, .layers = 2, .heads = 1, .width = 2});
  EXPECT_EQ(names_of(model.named_parameters()),
            with_biases({"h.0.norm1", "h.0.attn.qkv", "h.0.attn.proj", "h.0.norm2", "h.0.mlp.fc1",
                         "h.0.mlp.fc2", "h.1.norm1", "h.1.attn.qkv", "h.1.attn.proj", "h.1.norm2",
                         "h.1.mlp.fc1", "h.1.mlp.fc2", "ln_f"}));
  EXPECT_EQ(names_of(model.state_dict()),
            with_biases({"h.0.ln_1", "h.0.attn.c_attn", "h.0.attn.c_proj", "h.0.ln_2", "h.0.mlp.c_fc",
                         "h.0.mlp.c_proj", "h.1.ln_1", "h.1.attn.c_attn", "h.1.attn.c_proj", "h.1.ln_2",
                         "h.1.mlp.c_fc", "h.1.mlp.c_proj", "ln_f"}));
}

TEST(Gpt, LoadsTheNamesOfItsFilesAlone) {
  GptOptions options = odd_gpt();
  options.layers = 1;
  Gpt model(options), other(options);
  randomize(model);
  other.load_state_dict(model.state_dict());
  NamedTensors want = model.named_parameters(), got = other.named_parameters();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(same_bits(got[i].second, want[i].second)) << want[i].first;
  expect_error([&] { other.load_state_dict(want); },
               {"missing: h.0.attn.c_attn.weight", "unknown: h.0.attn.qkv.weight"});
}

TEST(Gpt, StartsAsGpt2Does) {
  constexpr int64_t layers = 3;
  manual_seed(11);
  Gpt model({.vocab_size = 199, .context = 64, .layers = layers, .heads = 4, .width = 64});
  for (auto& [name, parameter] : model.state_dict()) {
    std::vector<double> v = parameter.to_vector<double>();
    double n = double(v.size()), sum = 0, squares = 0;
    for (double value : v) sum += value, squares += value * value;
    if (parameter.rank() == 1) {
      double constant = name.ends_with("bias") ? 0 : 1;
      EXPECT_EQ(v, std::vector<double>(v.size(), constant)) << name;
      continue;
    }
    double want = name.find("c_proj") != std::string::npos ? 0.02 / std::sqrt(2.0 * layers) : 0.02;
    // 5 deviations of a sample's deviation and mean.
    EXPECT_NEAR(std::sqrt(squares / n), want, want * 5 / std::sqrt(2 * n)) << name;
    EXPECT_NEAR(sum / n, 0, want * 5 / std::sqrt(n)) << name;
  }
}

TEST(Gpt, StartsDifferentlyForEachSeedAndAlikeForOne) {
  auto first_weights = [](uint64_t seed) {
    manual_seed(seed);
    return Gpt(odd_gpt()).wte.weight.detach();
  };
  EXPECT_TRUE(same_bits(first_weights(1), first_weights(1)));
  EXPECT_FALSE(same_bits(first_weights(1), first_weights(2)));
}

// Position by position, so that a leak of any token into any earlier one shows.
TEST(Gpt, LaterTokensDoNotChangeEarlierLogitsByABit) {
  GptOptions options = odd_gpt();
  Gpt model(options);
  randomize(model);
  Tensor tokens = random_tokens({2, 11}, 23, 1);
  Tensor logits = model(tokens).detach();
  for (int64_t t = 0; t < 11; ++t) {
    std::vector<int64_t> ids = tokens.to_vector<int64_t>();
    for (size_t b = 0; b < 2; ++b) ids[b * 11 + size_t(t)] = (ids[b * 11 + size_t(t)] + 1) % 23;
    Tensor changed = model(Tensor::from(ids, {2, 11})).detach();
    EXPECT_TRUE(same_bits(changed.slice(1, 0, t), logits.slice(1, 0, t))) << "token " << t;
    for (int64_t later = t; later < 11; ++later)
      EXPECT_FALSE(same_bits(changed.select(1, later), logits.select(1, later)))
          << "token " << t << " does not reach position " << later;
  }
}

TEST(Gpt, NextLogitsAreThoseOfTheLastPosition) {
  Gpt model(odd_gpt());
  randomize(model);
  for (int64_t length : {1, 5, 11}) {
    Tensor tokens = random_tokens({3, length}, 23, 1);
    Tensor next = model.next_logits(tokens);
    EXPECT_EQ(next.shape(), (Shape{3, 23}));
    // Products of other sizes may be blocked otherwise: f32 rounding of sums of 15.
    EXPECT_TRUE(is_close(next, model(tokens).select(1, length - 1), 2e-6));
  }
}

TEST(Gpt, SamplesOfABatchDoNotSeeEachOther) {
  Gpt model(odd_gpt());
  randomize(model);
  Tensor tokens = random_tokens({3, 7}, 23, 1);
  Tensor all = model(tokens).detach();
  for (int64_t b = 0; b < 3; ++b)
    EXPECT_TRUE(is_close(model(tokens.slice(0, b, b + 1)).select(0, 0), all.select(0, b), 2e-6));  // as above
}

TEST(Gpt, RefusesWhatDoesNotFit) {
  Gpt model(odd_gpt());
  expect_error([&] { model(random_tokens({2, 12}, 23, 1)); }, {"Gpt", "12", "11"});
  expect_error([&] { model(random_tokens({2, 0}, 23, 1)); }, {"Gpt", "0"});
  expect_error([&] { model(random_tokens({7}, 23, 1)); }, {"Gpt", "(7,)"});
  expect_error([&] { model(Tensor::from<int64_t>({1, 23}, {1, 2})); }, {"embedding", "23"});
  GptOptions none = odd_gpt();
  none.layers = 0;
  expect_error([&] { Gpt other(none); }, {"Gpt", "layer"});
}

TEST(Gpt, CountsTheFlopsOfAStepAsThePalmPaperDoes) {
  // 6 x (parameters without positions) + 12 x layers x width x context.
  EXPECT_EQ(Gpt({.vocab_size = 100, .context = 10, .layers = 2, .heads = 2, .width = 8}).flops_per_token(),
            6.0 * (100 * 8 + 2 * (12 * 64 + 13 * 8) + 16) + 12.0 * 2 * 8 * 10);
}

// H v from differentiating the f32 model twice, against differences of the f64 composite's gradients:
// parameters are f32, so differences of the model's own gradients would lose all but two digits.
TEST(Gpt, DifferentiatesTwice) {
  GptOptions options{.vocab_size = 7, .context = 5, .layers = 1, .heads = 2, .width = 6};
  Gpt model(options);
  randomize(model);
  Tensor tokens = random_tokens({2, 5}, 7, 1), targets = random_tokens({2, 5}, 7, 2);
  TensorList parameters = model.parameters(), direction;
  for (size_t i = 0; i < parameters.size(); ++i)
    direction.push_back(testing::random_input(parameters[i].shape(), 50 + i));

  TensorList first = grad({cross_entropy(model(tokens), targets)}, parameters, {}, {.create_graph = true});
  Tensor along = scalar(0);
  for (size_t i = 0; i < first.size(); ++i) along = along + (first[i] * direction[i]).sum();
  TensorList got = grad({along}, parameters);

  auto gradients_at = [&](double step) {
    Weights w = f64_copies(model);
    auto named = model.named_parameters();
    TensorList leaves;
    for (size_t i = 0; i < named.size(); ++i) {
      Tensor moved = w.at(named[i].first).detach() + direction[i].to(DType::f64) * step;
      leaves.push_back(moved.detach().set_requires_grad());
      w[named[i].first] = leaves.back();
    }
    return grad({composite_loss(w, options, tokens, targets)}, leaves);
  };
  constexpr double step = 1e-5;  // its square, times third derivatives, is below f32's rounding
  TensorList ahead = gradients_at(step), behind = gradients_at(-step);
  for (size_t i = 0; i < got.size(); ++i)
    // Two f32 backward passes of a model with gradients near 1.
    EXPECT_TRUE(is_close(got[i], (ahead[i] - behind[i]) / (2 * step), 5e-5))
        << model.named_parameters()[i].first;
}

}  // namespace
}  // namespace reprise::nn
