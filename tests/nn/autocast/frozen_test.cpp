// Parameters that want no gradient are read by shadows too: frozen layers, and I-JEPA's target, which an average moves.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/autograd/shadow.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/autocast/casts.h"

namespace reprise {
namespace {

using testing::CountCasts;
using testing::kModes;
using testing::leaf;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

constexpr DType kHalf = DType::bf16;

struct Frozen : nn::Linear {
  Frozen() : nn::Linear(8, 6, {}, test_device()) { freeze(); }
};

Tensor read(nn::Linear& layer, const Tensor& x) {
  amp::Autocast scope(test_device(), kHalf);
  return layer(x);
}

// The reference: a tensor that is no parameter, with the same numbers, is cast by an operation.
Tensor by_recorded_cast(const nn::Linear& layer, const Tensor& x) {
  amp::Autocast scope(test_device(), kHalf);
  CountCasts count;
  Tensor y = linear(x, layer.weight.clone().detach(), layer.bias.clone().detach());
  EXPECT_EQ(count.casts, 1);
  return y;
}

size_t parameter_bytes() {
  return allocator(test_device()).stats().by_category[size_t(MemoryCategory::parameters)];
}

TEST(AutocastFrozen, FourPassesMakeOneShadowAndRunNoCast) {
  const size_t before_all = parameter_bytes();
  {
    Frozen layer;
    const Tensor x = numbers({5, 8}).to(kHalf);
    const size_t before = parameter_bytes();
    uint64_t first = 0;
    for (int pass = 0; pass < 4; ++pass) {
      CountCasts count;
      EXPECT_TRUE(same_bits(read(layer, x), by_recorded_cast(layer, x)));
      const Tensor shadow = autograd::shadow_of(layer.weight, kHalf, amp::Shadows::step);
      if (pass == 0) first = shadow.storage()->id();
      EXPECT_EQ(shadow.storage()->id(), first);
      EXPECT_EQ(parameter_bytes() - before, 2 * 48u);
      EXPECT_EQ(count.casts, 1) << "the reference's";
    }
  }
  EXPECT_EQ(parameter_bytes(), before_all) << "a shadow goes with its weight";
}

TEST(AutocastFrozen, EveryChangeMakesTheShadowAnew) {
  Frozen layer;
  const Tensor x = numbers({5, 8}).to(kHalf);
  auto expect_fresh = [&](const char* what) {
    EXPECT_TRUE(same_bits(read(layer, x), by_recorded_cast(layer, x))) << what;
  };
  expect_fresh("first");
  layer.weight.copy_(numbers({6, 8}, 2));
  expect_fresh("copy_");
  layer.weight.set_data(numbers({6, 8}, 3));
  expect_fresh("set_data");
  layer.load_state_dict({{"weight", numbers({6, 8}, 4)}, {"bias", numbers({6}, 5)}});
  expect_fresh("load_state_dict");
  layer.to(DType::f64), layer.weight.mul_(3), layer.to(DType::f32);
  expect_fresh("Module::to");
  Frozen followed;
  optim::Ema average(followed.named_parameters(), layer.named_parameters(), [](int64_t) { return 0.5; });
  average.update();
  expect_fresh("Ema");
}

TEST(AutocastFrozen, ReadsTheSameWithoutAGraph) {
  Frozen layer;
  const Tensor x = numbers({5, 8}).to(kHalf), want = by_recorded_cast(layer, x);
  CountCasts count;
  {
    NoGrad no_graph;
    EXPECT_TRUE(same_bits(read(layer, x), want));
  }
  {
    InferenceMode evaluation;
    EXPECT_TRUE(same_bits(read(layer, x), want));
  }
  EXPECT_EQ(count.casts, 0);
  layer.weight.set_requires_grad();
  sum(read(layer, x)).backward();
  EXPECT_EQ(layer.weight.grad().dtype(), DType::f32) << "thawed, it has a gradient";
}

// The weight is captured by the region, or one of its inputs.
TEST(AutocastFrozen, KeepsEveryBitInRegions) {
  Frozen layer;
  const Tensor x = leaf({5, 8}, 1);
  auto gradient = [&](const std::function<Tensor()>& y, amp::Shadows shadows) {
    x.set_grad({});
    Tensor loss;
    {
      amp::Autocast scope(test_device(), kHalf, {.weights = shadows});
      loss = sum(y());
    }
    loss.backward();
    return x.grad();
  };
  auto body = [&](const Tensor& in, const Tensor& weight) {
    return gelu(linear(tanh(in), weight, layer.bias));
  };
  const Tensor want = gradient([&] { return body(x, layer.weight); }, amp::Shadows::step);
  for (CheckpointMode mode : kModes)
    for (amp::Shadows shadows : {amp::Shadows::step, amp::Shadows::forward, amp::Shadows::none}) {
      CheckpointOptions options{.mode = mode};
      if (mode == CheckpointMode::non_reentrant) options.determinism = Determinism::values;
      auto captured = [&] {
        return checkpoint([&](const Tensor& in) { return body(in, layer.weight); }, x, options);
      };
      auto given = [&] { return checkpoint(body, std::tuple{x, layer.weight}, options); };
      EXPECT_TRUE(same_bits(gradient(captured, shadows), want)) << testing::name_of(mode);
      EXPECT_TRUE(same_bits(gradient(given, shadows), want)) << testing::name_of(mode) << ", as an input";
    }
}

// Hooks hand a replay's tensors on: with the weight's own 16-bit value, which is not made again.
TEST(AutocastFrozen, BackwardOfARegionMakesNoShadow) {
  Frozen layer;
  const Tensor x = leaf({5, 8}, 1);
  auto made = [&](const std::function<Tensor()>& y) {
    Tensor loss;
    {
      amp::Autocast scope(test_device(), kHalf, {.weights = amp::Shadows::step});
      loss = sum(y());
    }
    allocator(test_device()).start_recording();
    loss.backward();
    int count = 0;
    for (const MemoryEvent& event : allocator(test_device()).stop_recording())
      count += event.bytes > 0 && event.category == MemoryCategory::parameters;
    return count;
  };
  auto body = [&](const Tensor& in) { return gelu(layer(tanh(in))); };
  EXPECT_EQ(made([&] { return body(x); }), 0);
  for (CheckpointMode mode : kModes)
    EXPECT_EQ(made([&] { return checkpoint(body, x, {.mode = mode}); }), 0) << testing::name_of(mode);
  autograd::SavedTensorHooks hooks([](const Tensor& saved) { return std::any(saved); },
                                   [](const std::any& saved) { return std::any_cast<Tensor>(saved); });
  EXPECT_EQ(made([&] { return body(x); }), 0);
}

TEST(AutocastFrozen, JepasTargetIsReadWithoutCasts) {
  manual_seed(1);
  const nn::JepaOptions options{.image = 8,
                                .patch = 2,
                                .channels = 3,
                                .width = 8,
                                .layers = 2,
                                .heads = 2,
                                .predictor_width = 12,
                                .predictor_layers = 2,
                                .predictor_heads = 2};
  nn::Jepa model(options, test_device());
  optim::Ema target(model.encoder.named_parameters(), model.target_encoder.named_parameters(),
                    [](int64_t) { return 0.5; });
  const Tensor images = numbers({2, 3, 8, 8}, 1);
  auto features = [&](nn::Jepa& read, amp::Shadows shadows) {
    amp::Autocast scope(test_device(), kHalf, {.weights = shadows});
    return read.target_features(images);
  };
  Tensor before;
  for (int step = 0; step < 3; ++step) {
    Tensor got;
    {
      CountCasts count;
      got = features(model, amp::Shadows::step);
      EXPECT_EQ(count.casts, 0);
      EXPECT_GT(count.operations, 10);
    }
    EXPECT_TRUE(same_bits(features(model, amp::Shadows::step), got));
    // The model's own weights stay where they are, with their shadows: the average moves them by their version alone.
    nn::Jepa twin(options, test_device());
    twin.load_state_dict(model.state_dict());
    EXPECT_TRUE(same_bits(features(twin, amp::Shadows::none), got))
        << "of weights that no shadow was made of";
    EXPECT_FALSE(before.defined() && same_bits(before, got)) << "step " << step;
    before = got;
    NoGrad no_graph;
    for (const Tensor& p : model.encoder.parameters()) p.mul_(1.25);
    target.update();
  }
}

}  // namespace
}  // namespace reprise
