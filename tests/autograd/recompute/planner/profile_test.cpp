// Profiles: predicted peaks against the allocator's, and that a dry run leaves no trace.
// not in asan: Profile.PredictsItWhenGradientsAreHeldToo
// slow in asan
#include "reprise/autograd/recompute/planner/profile.h"

#include <gtest/gtest.h>

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/on_gpu.h"

namespace reprise::recompute {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::numbers;
using testing::test_device;

// The emulated device takes its time.
int64_t rows() { return test_device().is_cuda() ? 64 : 512; }
int64_t scaled(int64_t width) { return test_device().is_cuda() ? width / 8 : width; }

// Each moment it is asked for is one second later, so that no plan depends on the machine.
std::function<double()> steps() {
  return [seconds = 0.0]() mutable { return seconds += 1; };
}

/// Layers of unlike kinds and widths, with what is before and after them.
struct Network {
  TensorList parameters;
  std::vector<LayerFunction> layers;
  Tensor input = numbers({rows(), scaled(40)});
  Generator generator{5};
  TrainingStep step{.before = [this] { return linear(input, first); },
                    .layers = layers,
                    .after = [](const Tensor& y) { return mean(square(y)); }};
  Tensor first = parameter({scaled(96), scaled(40)});

  Tensor parameter(const Shape& shape) {
    parameters.push_back(leaf(shape, parameters.size() + 2));
    return parameters.back();
  }
  void add_linear(int64_t in, int64_t out, Activation activation) {
    layers.emplace_back([w = parameter({out, in}), b = parameter({out}), activation](const Tensor& x) {
      return linear(x, w, b, {.activation = activation});
    });
  }
  void add_block(int64_t width, int64_t hidden) {
    Tensor g = parameter({width}), w1 = parameter({hidden, width}), w2 = parameter({width, hidden});
    layers.emplace_back([=](const Tensor& x) {
      return mlp(layer_norm(x, g, {}, 1e-5), w1, {}, w2, {}, Activation::gelu_tanh, {.residual = x});
    });
  }
  void add_dropout_block(int64_t width) {
    Tensor w = parameter({width, width});
    layers.emplace_back(
        [=, this](const Tensor& x) { return x + dropout(tanh(linear(x, w)), 0.3, &generator); });
  }

  Network() {
    add_block(scaled(96), scaled(384));
    add_block(scaled(96), scaled(64));
    add_linear(scaled(96), scaled(256), Activation::gelu);
    add_dropout_block(scaled(256));
    add_block(scaled(256), scaled(512));
    add_linear(scaled(256), scaled(32), Activation::none);
    add_block(scaled(32), scaled(1024));
    add_dropout_block(scaled(32));
    add_block(scaled(32), scaled(32));
  }

  Tensor loss(const Plan& plan) { return step.after(run_plan(plan, layers, step.before())); }
  void zero_grad() {
    for (Tensor& p : parameters) p.set_grad({});
  }
  /// The allocator's peak in a step with this plan.
  int64_t measured_peak(const Plan& plan, GradientMemory gradients) {
    if (gradients == GradientMemory::fresh) zero_grad();
    allocator(test_device()).reset_peaks();
    loss(plan).backward();
    return int64_t(allocator(test_device()).stats().peak_held);
  }
};

std::vector<Plan> plans_of(const Chain& chain) {
  int64_t n = chain.size();
  std::vector<Plan> plans{plan_none(n), plan_every(n, 1), plan_every(n, 2), plan_segments(n, 3)};
  plans.push_back({{.begin = 0, .end = n, .checkpointed = true}});
  for (const Planned& planned : frontier(chain)) plans.push_back(planned.plan);
  return plans;
}

void expect_predicted(Network& network, const Chain& chain, GradientMemory gradients) {
  for (const Plan& plan : plans_of(chain)) {
    auto predicted = double(simulate(plan, chain).peak_bytes);
    auto measured = double(network.measured_peak(plan, gradients));
    EXPECT_NEAR(predicted / measured, 1, 0.01) << to_string(plan) << ": " << predicted << ", " << measured;
  }
}

TEST(Profile, PredictsTheAllocatorsPeakOfUnlikeLayers) {
  Network network;
  network.measured_peak(plan_none(9), GradientMemory::fresh);  // what is made once
  network.zero_grad();
  Chain chain = profile_step(network.step, {.repeats = 1, .clock = steps()});
  EXPECT_GT(plans_of(chain).size(), 9u);
  expect_predicted(network, chain, GradientMemory::fresh);
}

TEST(Profile, PredictsItWhenGradientsAreHeldToo) {
  Network network;
  network.measured_peak(plan_none(9), GradientMemory::fresh);
  network.zero_grad();
  Chain chain =
      profile_step(network.step, {.repeats = 1, .gradients = GradientMemory::held, .clock = steps()});
  network.measured_peak(plan_none(9), GradientMemory::fresh);
  expect_predicted(network, chain, GradientMemory::held);
}

TEST(Profile, LeavesNoTrace) {
  Network plain, profiled;
  Tensor marked = profiled.parameters[1];
  marked.set_grad(numbers(marked.shape(), 99));
  Tensor gradient = marked.grad();
  int calls = 0;
  marked.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  auto remove = autograd::register_post_accumulate_hook(marked, [&] { ++calls; });
  Generator::State before = default_generator().state();
  {
    testing::NoLeaks no_leaks;
    profile_step(profiled.step, {.gradients = GradientMemory::held});
    profile_chain(profiled.layers, numbers({rows(), scaled(96)}));
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(default_generator().state(), before);
  EXPECT_TRUE(marked.grad().is_same(gradient));
  EXPECT_FALSE(profiled.parameters[2].grad().defined());
  remove();
  marked.set_grad({});
  EXPECT_TRUE(testing::same_bits(profiled.loss(plan_none(9)), plain.loss(plan_none(9))));
}

TEST(Profile, TakesMediansOfItsClock) {
  Tensor w = leaf({8, 8});
  std::vector<LayerFunction> layers{[&](const Tensor& x) { return linear(x, w); }};
  double now = 0, next = 1;
  Chain chain =
      profile_chain(layers, numbers({4, 8}), {.repeats = 3, .clock = [&] { return now += next++; }});
  // Every moment is later by one second more than the one before, and each play asks four times: before and
  // after forward, before and after backward. So they take 2 and 4, 6 and 8, 10 and 12.
  EXPECT_EQ(chain.stages[0].forward_seconds, 6);
  EXPECT_EQ(chain.stages[0].backward_seconds, 8);
}

TEST(Profile, PlaysWhatIsAroundTheChainAsOftenAsItIsAsked) {
  Tensor x = numbers({4, 8}), w = leaf({8, 8}, 2);
  auto layer = [&](const Tensor& in) { return linear(in, w); };
  const std::vector<LayerFunction> layers{layer};
  for (int repeats : {1, 3}) {
    int losses = 0;
    TrainingStep step{.before = [&] { return layer(x); },
                      .layers = layers,
                      .after = [&](const Tensor& y) { return ++losses, mean(square(y)); }};
    Chain chain = profile_step(step, {.repeats = repeats, .clock = steps()});
    EXPECT_EQ(chain.before.forward_seconds, 1) << "from one moment to the next";
    EXPECT_EQ(chain.after.forward_seconds, 1);
    EXPECT_EQ(chain.after.backward_seconds, 1);
    EXPECT_EQ(losses, 1 + repeats) << "and once to make what is made once";
  }
}

TEST(Profile, MeasuresALinearLayerToTheByte) {
  if (testing::on_gpu()) GTEST_SKIP() << "cuBLASLt takes memory to work in";
  Tensor w = leaf({32, 16});
  std::vector<LayerFunction> layers{[&](const Tensor& x) { return linear(x, w); }};
  Chain chain = profile_chain(layers, numbers({64, 16}), {.repeats = 1});
  const Stage& s = chain.stages[0];
  EXPECT_EQ(chain.before.boundary_bytes, 64 * 16 * 4);
  EXPECT_EQ(s.boundary_bytes, 64 * 32 * 4);
  EXPECT_EQ(s.saved_bytes, 0);  // it keeps its input
  EXPECT_EQ(s.workspace_forward_bytes, 0);
  EXPECT_EQ(s.workspace_unsaved_bytes, 0);
  EXPECT_EQ(s.workspace_backward_bytes, 64 * 16 * 4 + 32 * 16 * 4);  // dx and dw
  EXPECT_EQ(s.gradient_bytes, 32 * 16 * 4);
  EXPECT_EQ(s.early_stop_bytes, 64 * 32 * 4);  // a replay has no need of the output
}

TEST(Profile, RefusesAChainWithoutLayers) {
  expect_error([&] { profile_chain({}, numbers({1})); }, "profile: the chain has no layers");
  expect_error([&] { profile_chain({[](const Tensor& x) { return x; }}, numbers({1}), {.repeats = 0}); },
               "profile: 0 repeats");
}

}  // namespace
}  // namespace reprise::recompute
