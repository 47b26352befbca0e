// Jepa against a reference in PyTorch, which tools/parity_jepa.py made the golden file with; and what must never happen to
// its target encoder.
// slow on the device cuda
#include "reprise/nn/models/jepa.h"

#include <cmath>

#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/golden.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::golden_path;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

// The reference is in f64; what we promise of f32.
constexpr double tolerance = 1e-5;

JepaOptions tiny() {
  return {.image = 8,
          .patch = 2,
          .channels = 3,
          .width = 8,
          .layers = 2,
          .heads = 2,
          .predictor_width = 12,
          .predictor_layers = 2,
          .predictor_heads = 3};
}

optim::Ema target_of(Jepa& model, optim::EmaDecay decay) {
  return {model.encoder.named_parameters(), model.target_encoder.named_parameters(), std::move(decay)};
}

// The reference's two steps, one after the other.
struct Parity {
  io::SafetensorsFile golden{golden_path("jepa_parity.safetensors")};
  Jepa model{tiny(), test_device()};
  Tensor images = read("images"), context = read("context"), targets = read("targets");

  Parity() {
    NamedTensors state;
    for (const auto& [name, tensor] : model.state_dict())
      state.emplace_back(name, name.ends_with("pos_embed") ? tensor.detach() : read("start/" + name));
    model.load_state_dict(state);
  }
  Tensor read(const std::string& key) { return golden.read(key).to(test_device()); }

  // A key's bias shifts all scores of a query alike: its gradient is 0 but for rounding, which AdamW scales up.
  void expect_close(const std::string& key, const Tensor& got) {
    std::vector<double> values = got.detach().to_vector<double>(), want = read(key).to_vector<double>();
    ASSERT_EQ(values.size(), want.size()) << key;
    const bool of_keys = key.ends_with("qkv.bias");
    double difference = 0, norm = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      if (of_keys && i * 3 / want.size() == 1) continue;
      difference += (values[i] - want[i]) * (values[i] - want[i]);
      norm += want[i] * want[i];
    }
    EXPECT_LE(std::sqrt(difference / norm), tolerance) << key;
  }
};

TEST(Jepa, MatchesReference) {
  Parity p;
  optim::AdamW optimizer(optim::decay_matrices(p.model, 1e-2, 0.1), {.beta2 = 0.95});
  optim::Ema target = target_of(p.model, [](int64_t update) { return 0.5 + 0.5 * double(update) / 2; });
  for (int64_t step = 0; step < 2; ++step) {
    const std::string at = std::to_string(step) + "/";
    Tensor images = select(p.images, 0, step), features = p.model.target_features(images);
    Tensor loss = p.model.loss(images, features, p.context, p.targets);
    loss.backward();
    p.expect_close(at + "features", features);
    p.expect_close(at + "loss", loss);
    for (const auto& [name, parameter] : p.model.named_parameters())
      if (!name.starts_with("target_encoder.")) p.expect_close(at + "grad/" + name, parameter.grad());
    optimizer.step();
    optimizer.zero_grad();
    target.update();
    for (const auto& [name, parameter] : p.model.named_parameters())
      p.expect_close(at + "after/" + name, parameter);
  }
}

TEST(Jepa, StartsWithATargetLikeItsEncoder) {
  Jepa model(tiny(), test_device());
  NamedTensors encoder = model.encoder.state_dict(), target = model.target_encoder.state_dict();
  ASSERT_EQ(encoder.size(), target.size());
  for (size_t i = 0; i < encoder.size(); ++i) {
    EXPECT_EQ(encoder[i].first, target[i].first);
    EXPECT_TRUE(same_bits(encoder[i].second.detach(), target[i].second.detach())) << encoder[i].first;
  }
}

struct TinyBatch {
  Tensor images, context, targets;
};
TinyBatch batch_of(uint64_t seed) {
  const std::vector<int64_t> context = {0, 1, 3, 4, 7, 8, 2, 5, 9, 10, 11, 12},
                             targets = {5, 6, 9, 10, 14, 15, 13, 14, 0, 4, 1, 3};
  return {.images = numbers({2, 3, 8, 8}, seed),
          .context = Tensor::from(context, {2, 6}, test_device()),
          .targets = Tensor::from(targets, {2, 2, 3}, test_device())};
}

Tensor loss_of(Jepa& model, const TinyBatch& batch) {
  return model.loss(batch.images, model.target_features(batch.images), batch.context, batch.targets);
}

// `train()` reaches all children; dropped paths would show a target in training mode.
TEST(Jepa, NeverTrainsItsTarget) {
  JepaOptions options = tiny();
  options.drop_path = 0.5;
  Jepa model(options, test_device());
  const TinyBatch batch = batch_of(1);
  model.eval();
  Tensor want = model.target_features(batch.images);
  model.train();
  EXPECT_TRUE(model.encoder.training());
  EXPECT_FALSE(model.target_encoder.training());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(model.target_features(batch.images), want));
  EXPECT_FALSE(want.requires_grad());
  loss_of(model, batch).backward();
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool is_target = name.starts_with("target_encoder.");
    EXPECT_EQ(parameter.requires_grad(), !is_target) << name;
    EXPECT_EQ(parameter.grad().defined(), !is_target) << name;
  }
}

// What the encoder does not see changes nothing that it makes, so no gradient of the loss reaches it.
TEST(Jepa, SeesItsContextAlone) {
  Jepa model(tiny(), test_device());
  const TinyBatch batch = batch_of(1);
  Tensor features = model.target_features(batch.images), other = batch.images.clone();
  const int64_t row = 3, column = 1;  // patch 13, which is in no context
  other.slice(2, 2 * row, 2 * row + 2).slice(3, 2 * column, 2 * column + 2).fill_(1);
  EXPECT_EQ(model.loss(other, features, batch.context, batch.targets).item(),
            model.loss(batch.images, features, batch.context, batch.targets).item());
}

struct Strategies {
  const char *encoder, *predictor;
};

// Losses, gradients and all weights of two updates.
TensorList two_updates(const Strategies& strategies) {
  manual_seed(5);
  JepaOptions options = tiny();
  options.layers = options.predictor_layers = 3;
  options.drop_path = 0.3;
  options.recompute = parse_strategy(strategies.encoder);
  options.recompute_predictor = parse_strategy(strategies.predictor);
  Jepa model(options, test_device());
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  optim::Ema target = target_of(model, [](int64_t) { return 0.9; });
  TensorList bits;
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint64_t micro = 0; micro < 2; ++micro) {
      Tensor loss = loss_of(model, batch_of(2 * step + micro));
      loss.backward();
      bits.push_back(loss.detach());
    }
    for (const Tensor& parameter : model.parameters())
      if (parameter.grad().defined()) bits.push_back(parameter.grad());
    optimizer.step();
    optimizer.zero_grad();
    target.update();
  }
  for (const auto& [name, tensor] : model.state_dict()) bits.push_back(tensor.detach());
  return bits;
}

TEST(Jepa, IsRecomputedToTheSameBits) {
  TensorList want = two_updates({"none", "none"});
  for (Strategies strategies : {Strategies{"full", "none"},
                                {"none", "full"},
                                {"full", "selective"},
                                {"selective", "every:2"},
                                {"segments:2", "offload"},
                                {"layers:0,2", "layers:1"}}) {
    SCOPED_TRACE(std::string(strategies.encoder) + " and " + strategies.predictor);
    NoLeaks guard;
    TensorList got = two_updates(strategies);
    EXPECT_TRUE(same_bits(got, want));
  }
}

// The planner of the encoder's blocks counts the predictor, which takes most of this budget.
TEST(Jepa, PlansItsEncoderForAWholeStep) {
  JepaOptions options = tiny();
  options.layers = 4;
  options.recompute = parse_strategy("auto:1GiB");
  Jepa model(options, test_device());
  const TinyBatch batch = batch_of(1);
  loss_of(model, batch).backward();
  Tensor tokens = take_tokens(model.encoder.embed(batch.images), batch.context).detach();
  model.encoder.planned_loss = [&](const Tensor& x) {
    return sum(model.predictor(x, batch.context, batch.targets));
  };
  recompute::Chain with = model.encoder.blocks.profile(tokens, {.repeats = 1});
  model.encoder.planned_loss = {};
  recompute::Chain without = model.encoder.blocks.profile(tokens, {.repeats = 1});
  EXPECT_GT(with.after.saved_bytes, without.after.saved_bytes);
}

TEST(Jepa, TellsFeaturesThatCollapsed) {
  Tensor same = expand(numbers({1, 4, 8}), {6, 4, 8});
  EXPECT_LT(feature_std(same), 1e-6) << "rounding alone";
  // Deviations 1 (of 3 and 1) and 2, at two places.
  EXPECT_DOUBLE_EQ(feature_std(Tensor::from<float>({3, 0, 1, 4}, {2, 1, 2}, test_device())), 1.5);
}

TEST(Jepa, RefusesWhatDoesNotFit) {
  JepaOptions options = tiny();
  options.predictor_heads = 5;
  options.predictor_width = 14;
  expect_error([&] { Jepa{options}; }, "Jepa: the options do not fit",
               "predictor_width 14 is not a multiple of 5 heads", "multiple of 4, got 14");
  Jepa model(tiny(), test_device());
  const TinyBatch batch = batch_of(1);
  expect_error(
      [&] {
        loss_of(model, {batch.images, batch.context, batch.context});
      },
      "Jepa: context (B, K) and targets (B, n, M) of 2 images, got (2, 6) and (2, 6)");
}

}  // namespace
}  // namespace reprise::nn
