// A Gpt whose weights have 16 bits, but for those of norms, under an autocast scope whose norms give what they are given.
// slow on the device cuda
#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using namespace testing;
using optim::Master;

constexpr amp::AutocastOptions kPure{.norms = amp::Norms::as_given};

GptOptions options_of(double dropout = 0) {
  return {.vocab_size = 65, .context = 24, .layers = 2, .heads = 2, .width = 32, .dropout = dropout};
}

struct Mode {
  DType dtype = DType::bf16;
  Master master = Master::f32;
  DType moments = DType::f32;
  bool main_gradients = true;
  std::string recompute = "none";
  double dropout = 0;
  bool is_reentrant = false;
};

struct Trained {
  std::vector<double> losses;
  NamedTensors weights;
};

Trained train(const Mode& mode, uint64_t steps) {
  manual_seed(5);
  Gpt model(options_of(mode.dropout), test_device());
  if (mode.is_reentrant)
    model.h.set_recompute(recompute::Plan{{0, 1, true}, {1, 2, true}},
                          {.mode = recompute::CheckpointMode::reentrant});
  else
    model.h.set_recompute(parse_strategy(mode.recompute));
  if (mode.dtype != DType::f32) to_precision(model, mode.dtype);
  for (const Tensor& parameter : model.parameters())
    if (mode.main_gradients) parameter.set_grad_dtype(DType::f32);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1),
                         {.master = mode.master, .moments = mode.moments, .seed = 3});
  optim::GradScaler scaler(test_device(), {.init_scale = mode.dtype == DType::f16 ? 1024. : 1});
  Trained run;
  for (uint64_t step = 0; step < steps; ++step) {
    const Tensor tokens = random_tokens({2, 24}, 65, step % 4).to(test_device()),
                 targets = random_tokens({2, 24}, 65, 10 + step % 4).to(test_device());
    Tensor loss;
    if (mode.dtype == DType::f32) {
      loss = cross_entropy(model(tokens), targets);
    } else {
      amp::Autocast scope(test_device(), mode.dtype, kPure);
      loss = cross_entropy(model(tokens), targets);
    }
    EXPECT_EQ(loss.dtype(), DType::f32);
    scaler.scale(loss).backward();
    scaler.step(optimizer, {.clip = 1.0});
    scaler.update();
    optimizer.zero_grad();
    run.losses.push_back(loss.item());
  }
  for (const auto& [name, tensor] : model.named_parameters())
    run.weights.emplace_back(name, tensor.detach().clone());
  return run;
}

TEST(PureGpt, HasWeightsOf16BitsAndNormsInF32) {
  Gpt model(options_of(), test_device());
  to_precision(model, DType::bf16);
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool of_norm = name.find("norm") != std::string::npos || name.starts_with("ln_f");
    EXPECT_EQ(parameter.dtype(), of_norm ? DType::f32 : DType::bf16) << name;
  }
  amp::Autocast scope(test_device(), DType::bf16, kPure);
  const Tensor tokens = random_tokens({2, 24}, 65, 1).to(test_device());
  EXPECT_EQ(model.features(tokens).dtype(), DType::bf16);
}

TEST(PureGpt, ConvertsEachKindOfStateAsItShould) {
  struct Net : Module {
    Linear first{3, 4}, frozen{4, 4};
    BatchNorm1d norm{4};
    Tensor buffer = register_buffer("buffer", zeros({2}));
    Tensor constant = register_constant("constant", zeros({2}));
    Net() {
      register_module("first", first);
      register_module("frozen", frozen);
      register_module("norm", norm);
      frozen.freeze();
    }
  } net;
  const Tensor handle = net.first.weight;
  to_precision(net, DType::f16);
  EXPECT_EQ(handle.dtype(), DType::f16);
  EXPECT_EQ(net.buffer.dtype(), DType::f16);
  for (const Tensor& kept : {net.frozen.weight, net.norm.weight, net.norm.running_var, net.constant})
    EXPECT_EQ(kept.dtype(), DType::f32);
  EXPECT_EQ(net.norm.num_batches_tracked.dtype(), DType::i64);
  to_precision(net, DType::f32);
  EXPECT_EQ(handle.dtype(), DType::f32);
  expect_error([&] { to_precision(net, DType::f64); }, {"to_precision: needs bf16, f16 or f32, got f64"});
}

// Early updates of Adam follow the signs of gradients near 0, and logits of bf16 are rounded by 2^-8.
TEST(PureGpt, TrainsToTheLossesOfF32) {
  const uint64_t steps = test_device().is_cuda() ? 4 : 12;
  const std::vector<double> want = train({.dtype = DType::f32, .main_gradients = false}, steps).losses;
  const Mode modes[] = {{},
                        {.main_gradients = false},
                        {.master = Master::split},
                        {.master = Master::stochastic},
                        {.master = Master::stochastic, .moments = DType::bf16},
                        {.master = Master::stochastic, .moments = DType::u8},
                        {.dtype = DType::f16},
                        {.dtype = DType::f16, .main_gradients = false}};
  for (const Mode& mode : modes) {
    const std::vector<double> got = train(mode, steps).losses;
    for (size_t step = 0; step < want.size(); ++step)
      EXPECT_NEAR(got[step], want[step], 0.06) << &mode - modes << ", step " << step;
    if (steps == 12) { EXPECT_LT(got.back(), got.front() - 0.2) << &mode - modes; }
  }
}

TEST(PureGpt, IsPlannedWithGradientsInF32) {
  manual_seed(5);
  Gpt model(options_of(), test_device());
  to_precision(model, DType::bf16);
  for (const Tensor& parameter : model.parameters()) parameter.set_grad_dtype(DType::f32);
  model.h.set_recompute({.kind = RecomputeStrategy::Kind::automatic, .memory_budget = size_t(64) << 20});
  amp::Autocast scope(test_device(), DType::bf16, kPure);
  const Tensor tokens = random_tokens({2, 24}, 65, 1).to(test_device());
  cross_entropy(model(tokens), tokens).backward();  // plans before it runs
  for (const auto& [name, parameter] : model.named_parameters())
    EXPECT_EQ(parameter.grad().dtype(), DType::f32) << name;
}

TEST(PureGpt, KeepsEveryBitUnderRecompute) {
  for (Master master : {Master::f32, Master::stochastic}) {
    const Trained plain = train({.master = master, .dropout = 0.1}, 3);
    for (const char* recompute : {"full", "selective", "reentrant"}) {
      Mode mode{.master = master, .dropout = 0.1};
      if (recompute == std::string("reentrant"))
        mode.is_reentrant = true;
      else
        mode.recompute = recompute;
      const Trained again = train(mode, 3);
      EXPECT_EQ(again.losses, plain.losses) << recompute;
      for (size_t i = 0; i < plain.weights.size(); ++i)
        EXPECT_TRUE(same_bits(again.weights[i].second, plain.weights[i].second)) << plain.weights[i].first;
    }
  }
}

// The gradient of a gradient penalty, of all weights together, against that of the same weights in f32.
TEST(PureGpt, DifferentiatesTwice) {
  auto penalty_gradients = [](DType dtype) {
    manual_seed(5);
    Gpt model(options_of(), test_device());
    to_precision(model, DType::bf16);
    if (dtype == DType::f32) to_precision(model, DType::f32);  // the rounded weights
    const Tensor tokens = random_tokens({2, 24}, 65, 1).to(test_device()),
                 targets = random_tokens({2, 24}, 65, 10).to(test_device());
    Tensor loss;
    if (dtype == DType::f32) {
      loss = cross_entropy(model(tokens), targets);
    } else {
      amp::Autocast scope(test_device(), dtype, kPure);
      loss = cross_entropy(model(tokens), targets);
    }
    Tensor penalty = zeros({}, DType::f32, test_device());
    for (const Tensor& g : grad({loss}, model.parameters(), {}, {.create_graph = true}))
      penalty = penalty + square(g.to(DType::f32)).sum();
    penalty.backward();
    std::vector<double> all;
    for (const Tensor& parameter : model.parameters())
      for (double value : parameter.grad().to(DType::f32).to_vector<double>()) all.push_back(value);
    return all;
  };
  const std::vector<double> got = penalty_gradients(DType::bf16), want = penalty_gradients(DType::f32);
  ASSERT_EQ(got.size(), want.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  EXPECT_GT(size, 0);
  EXPECT_LT(std::sqrt(difference / size),
            0.05);  // activations and gradients are rounded by 2^-8, layer by layer
}

// What is kept for backward is of 16 bits, but for two numbers a row of each norm and one of each row of attention.
TEST(PureGpt, KeepsHalfOfWhatF32Keeps) {
  auto held = [](bool pure) {
    Gpt model({.vocab_size = 65, .context = 64, .layers = 2, .heads = 2, .width = 64}, test_device());
    if (pure) to_precision(model, DType::bf16);
    const Tensor tokens = random_tokens({8, 64}, 65, 1).to(test_device());
    auto bytes = [] {
      return double(allocator(test_device()).stats().by_category[size_t(MemoryCategory::activations)]);
    };
    const double before = bytes();
    Tensor y;
    if (pure) {
      amp::Autocast scope(test_device(), DType::bf16, kPure);
      y = model.features(tokens);
    } else {
      y = model.features(tokens);
    }
    return bytes() - before;
  };
  const double f32 = held(false), pure = held(true);
  EXPECT_LT(pure / f32, 0.53);
  EXPECT_GT(pure / f32, 0.49);
}

TEST(PureGpt, RunsAVitToo) {
  Vit model({.image = 8,
             .patch = 4,
             .classes = 3,
             .width = 16,
             .layers = 2,
             .heads = 2,
             .positions = Positions::sincos},
            test_device());
  to_precision(model, DType::bf16);
  amp::Autocast scope(test_device(), DType::bf16, kPure);
  const Tensor images = random_input({2, 3, 8, 8}).to(test_device());
  EXPECT_EQ(model.features(images).dtype(), DType::bf16) << "positions of f32 would widen the stream";
  cross_entropy(model(images), Tensor::from<int64_t>({0, 2}, {2}, test_device())).backward();
  for (const auto& [name, parameter] : model.named_parameters())
    EXPECT_TRUE(parameter.grad().defined()) << name;
}

// docs/mixed_precision.md: bytes a parameter, counted by the allocator.
TEST(PureGpt, TakesTheBytesAParameterThatTheDocsSay) {
  struct Row {
    DType dtype;
    Master master;
    DType moments;
    bool main_gradients;
    size_t parameter, gradient;
    double state;
  };
  const Row rows[] = {{DType::f32, Master::f32, DType::f32, true, 4, 4, 8},
                      {DType::bf16, Master::f32, DType::f32, true, 2, 4, 12},
                      {DType::f16, Master::f32, DType::f32, false, 2, 2, 12},
                      {DType::bf16, Master::split, DType::f32, true, 2, 4, 10},
                      {DType::bf16, Master::split, DType::f32, false, 2, 2, 10},
                      {DType::bf16, Master::stochastic, DType::f32, false, 2, 2, 8},
                      {DType::bf16, Master::stochastic, DType::bf16, false, 2, 2, 4},
                      {DType::bf16, Master::stochastic, DType::u8, false, 2, 2, 2 + 8. / 256},
                      {DType::bf16, Master::stochastic, DType::f32, true, 2, 4, 8},
                      {DType::bf16, Master::stochastic, DType::bf16, true, 2, 4, 4},
                      {DType::bf16, Master::stochastic, DType::u8, true, 2, 4, 2 + 8. / 256}};
  const int64_t count = 1 << 16;
  auto bytes = [] { return allocator(test_device()).stats().by_category; };
  for (const Row& row : rows) {
    const auto before = bytes();
    struct Net : Module {
      Tensor weight;
      explicit Net(int64_t n) {
        weight = register_parameter("weight", zeros({n}, DType::f32, test_device()));
      }
    } net(count);
    to_precision(net, row.dtype);
    if (row.main_gradients) net.weight.set_grad_dtype(DType::f32);
    optim::AdamW optimizer(net.parameters(), {.master = row.master, .moments = row.moments});
    sum(net.weight * net.weight).backward();
    optimizer.step();
    const auto after = bytes();
    auto per_parameter = [&](MemoryCategory category) {
      return double(after[size_t(category)] - before[size_t(category)]) / double(count);
    };
    EXPECT_EQ(per_parameter(MemoryCategory::parameters), double(row.parameter));
    EXPECT_EQ(per_parameter(MemoryCategory::gradients), double(row.gradient));
    EXPECT_EQ(per_parameter(MemoryCategory::optimizer), row.state) << &row - rows;
  }
}

// The same of a weight whose 16-bit value an update writes beside it.
TEST(PureGpt, AutocastTakesTheBytesAParameterThatTheDocsSay) {
  struct Net : Module {
    Tensor weight;
    Net() { weight = register_parameter("weight", zeros({256, 256}, DType::f32, test_device())); }
  };
  auto bytes = [] { return allocator(test_device()).stats().by_category; };
  const auto before = bytes();
  Net net;
  optim::AdamW optimizer(net.parameters());
  {
    amp::Autocast scope(test_device(), DType::bf16);
    sum(linear(ones({1, 256}, DType::f32, test_device()), net.weight)).backward();
  }
  optimizer.step();
  const auto after = bytes();
  auto per_parameter = [&](MemoryCategory category) {
    return double(after[size_t(category)] - before[size_t(category)]) / double(net.weight.numel());
  };
  EXPECT_EQ(per_parameter(MemoryCategory::parameters), 6) << "the weight, and its shadow";
  EXPECT_EQ(per_parameter(MemoryCategory::gradients), 4);
  EXPECT_EQ(per_parameter(MemoryCategory::optimizer), 8);
}

}  // namespace
}  // namespace reprise::nn
