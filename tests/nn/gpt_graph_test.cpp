// Training steps of a Gpt captured in a graph, against the same steps launched one kernel at a time: the same
// kernels on the same numbers, so the same bits.
// not in tsan: GptGraph.ReplaysAWholeF16Update:GptGraph.ReplaysAWholeUpdateOfF16Weights:GptGraph.ReplaysForwardAndBackwardOfRecomputedBlocks:GptGraph.EvaluationsBetweenLaunchesReadTheWeightsAsTheyAre
// slow in tsan
#include <algorithm>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::odd_gpt;
using testing::random_tokens;
using testing::same_bits;

constexpr int64_t updates = 4;
const Shape batch = {2, 9};
constexpr double lr = 1e-2, decay = 0.1, max_norm = 1;

double lr_factor(int64_t update) { return 1 / (1 + 0.3 * double(update)); }

/// A model and the batch that it is trained on; all from one seed.
struct Trained {
  explicit Trained(Device device)
      : gpt(options(), device),
        tokens(Tensor::zeros(batch, DType::i64, device)),
        targets(Tensor::zeros(batch, DType::i64, device)) {}
  static GptOptions options() {
    manual_seed(5);
    return odd_gpt();
  }
  /// Some targets are ignored, not equally many in each batch.
  void next_batch(int64_t update) {
    Tensor next = random_tokens(batch, 23, uint64_t(10 + update));
    std::fill_n(next.view().as<int64_t>(), 3 * update, -100);
    tokens.copy_(random_tokens(batch, 23, uint64_t(update)));
    targets.copy_(next);
  }
  Tensor loss() { return cross_entropy(gpt(tokens), targets); }

  Gpt gpt;
  Tensor tokens, targets;
};

class GptGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
    Trained want(device);
    optim::AdamW optimizer(want.gpt.parameters(), {.weight_decay = decay});
    for (int64_t update = 0; update < updates; ++update) {
      want.next_batch(update);
      Tensor loss = want.loss();
      loss.backward();
      optimizer.set_lr(lr * lr_factor(update));
      optimizer.step(optim::clip_scale(optim::grad_norm(want.gpt.parameters()), max_norm));
      optimizer.zero_grad();
      losses.push_back(loss.item());
    }
    parameters = want.gpt.named_parameters();
  }
  void expect_trained(const Gpt& gpt) {
    NamedTensors got = gpt.named_parameters();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i].second.detach(), parameters[i].second.detach())) << got[i].first;
  }

  void expect_replays_forward_and_backward(const char* recompute, const CheckpointOptions& options = {}) {
    Trained got(device);
    got.gpt.h.set_recompute(recompute::plan_of(parse_strategy(recompute), got.gpt.h.size()), options);
    optim::AdamW optimizer(got.gpt.parameters(), {.weight_decay = decay});
    Tensor loss;
    cuda::Graph graph(current_stream(device), [&] {
      loss = got.loss();
      loss.backward();  // gradients were absent: each launch writes them anew
    });
    for (int64_t update = 0; update < updates; ++update) {
      got.next_batch(update);
      graph.launch();
      optimizer.set_lr(lr * lr_factor(update));
      optimizer.step(optim::clip_scale(optim::grad_norm(got.gpt.parameters()), max_norm));
      EXPECT_EQ(loss.item(), losses[size_t(update)]) << "update " << update;
    }
    expect_trained(got.gpt);
  }

  const Device device = Device::cuda();
  std::vector<double> losses;  // of each update
  NamedTensors parameters;     // after them
};

TEST_F(GptGraph, ReplaysForwardAndBackward) { expect_replays_forward_and_backward("none"); }
TEST_F(GptGraph, ReplaysForwardAndBackwardOfRecomputedBlocks) {
  for (CheckpointMode mode : testing::kModes) expect_replays_forward_and_backward("full", {.mode = mode});
}

/// AdamW whose step, learning rate and clipping lie on the device.
struct AdamWOnDevice {
  explicit AdamWOnDevice(const Gpt& gpt) : parameters(gpt.parameters()) {
    for (const Tensor& p : parameters)
      for (TensorList* moments : {&first, &second})
        moments->push_back(Tensor::zeros(p.shape(), p.dtype(), p.device()));
    Device device = parameters[0].device();
    step = Tensor::zeros({}, DType::i64, device);
    factor = Tensor::zeros({}, DType::f64, device);
  }
  void update() {
    NoGrad guard;
    Stream stream = current_stream(step.device());
    std::vector<TensorView> gradients;
    std::vector<kernels::AdamWTensor> tensors;
    for (size_t i = 0; i < parameters.size(); ++i) {
      gradients.push_back(parameters[i].grad().view());
      tensors.push_back({parameters[i], gradients[i], first[i], second[i], lr, decay});
    }
    Tensor norm = Tensor::empty({}, DType::f64, step.device());
    kernels::global_norm(stream, gradients, norm);
    Tensor scale = minimum(max_norm / (norm + 1e-6), ones({}, DType::f64, step.device()));
    step.add_(ones({}, DType::i64, step.device()));
    kernels::adamw(stream, tensors,
                   {.in_memory = {.lr_factor = factor, .gradient_scale = scale, .step = step}});
  }

  TensorList parameters, first, second;
  Tensor step, factor;
};

TEST_F(GptGraph, ReplaysAWholeUpdate) {
  Trained got(device);
  AdamWOnDevice optimizer(got.gpt);
  Tensor loss;
  cuda::Graph graph(current_stream(device), [&] {
    loss = got.loss();
    loss.backward();
    optimizer.update();
    got.gpt.zero_grad();
  });
  for (int64_t update = 0; update < updates; ++update) {
    got.next_batch(update);
    optimizer.factor.copy_(scalar(lr_factor(update), DType::f64, Device::cpu()));
    graph.launch();
    EXPECT_EQ(loss.item(), losses[size_t(update)]) << "update " << update;
  }
  expect_trained(got.gpt);
}

enum class Weights { f32, f16 };

/// Updates in f16 with a loss scale; the loss is multiplied by `factor`, which makes one of them overflow. Weights of f16 have
/// copies in f32, and gradients in it.
struct TrainedInF16 : Trained {
  explicit TrainedInF16(Device device, Weights weights = Weights::f32)
      : Trained(device),
        norms(weights == Weights::f16 ? amp::Norms::as_given : amp::Norms::f32),
        optimizer(parameters(weights), {.lr = lr, .weight_decay = decay}),
        scaler(device, {.init_scale = 1024, .interval = 2}),
        factor(ones({}, DType::f32, device)) {}
  TensorList parameters(Weights weights) {
    if (weights == Weights::f16) {
      to_precision(gpt, DType::f16);
      for (const Tensor& p : gpt.parameters()) p.set_grad_dtype(DType::f32);
    }
    return gpt.parameters();
  }
  void update() {
    Tensor scaled;
    {
      amp::Autocast scope(factor.device(), DType::f16, {.norms = norms});
      scaled = scaler.scale(loss() * factor);
    }
    scaled.backward();
    scaler.step(optimizer, {.clip = max_norm});
    scaler.update();
    optimizer.zero_grad();
  }
  void next(int64_t number) {
    next_batch(number);
    factor.copy_(full({}, number == 2 ? std::numeric_limits<double>::infinity() : 1.0));
  }
  amp::Norms norms;
  optim::AdamW optimizer;
  optim::GradScaler scaler;
  Tensor factor;
};

// The first update is made as it is, since it makes the moments.
void expect_replays_a_whole_f16_update(Device device, Weights weights) {
  TrainedInF16 want(device, weights), got(device, weights);
  for (TrainedInF16* run : {&want, &got}) run->next(0), run->update();
  cuda::Graph graph(current_stream(device), [&] { got.update(); });
  for (int64_t number = 1; number < 6; ++number) {
    for (TrainedInF16* run : {&want, &got}) run->next(number);
    want.update();
    graph.launch();
    const optim::GradScaler::Stats stats = got.scaler.read(), same = want.scaler.read();
    EXPECT_EQ(stats.scale, same.scale) << "update " << number;
    if (number != 2) { EXPECT_EQ(stats.norm, same.norm) << "update " << number; }
    EXPECT_EQ(stats.skipped, number < 2 ? 0 : 1) << "update " << number;
    EXPECT_EQ(stats.found != 0, number == 2) << "update " << number;
  }
  EXPECT_EQ(got.scaler.read().scale, 2048);  // 1024, after two updates 2048, halved, after two more 2048
  const NamedTensors parameters_got = got.gpt.named_parameters(),
                     parameters_want = want.gpt.named_parameters();
  for (size_t i = 0; i < parameters_got.size(); ++i)
    EXPECT_TRUE(same_bits(parameters_got[i].second.detach(), parameters_want[i].second.detach()))
        << parameters_got[i].first;
}

TEST_F(GptGraph, ReplaysAWholeF16Update) { expect_replays_a_whole_f16_update(device, Weights::f32); }
TEST_F(GptGraph, ReplaysAWholeUpdateOfF16Weights) { expect_replays_a_whole_f16_update(device, Weights::f16); }

// Each evaluation keeps the 16-bit values of the weights, where it may.
TEST_F(GptGraph, EvaluationsBetweenLaunchesReadTheWeightsAsTheyAre) {
  TrainedInF16 want(device), got(device);
  auto evaluated = [&](TrainedInF16& run) {
    NoGrad guard;
    amp::Autocast scope(device, DType::bf16);
    return run.loss().item();
  };
  for (TrainedInF16* run : {&want, &got}) run->next(0), run->update(), evaluated(*run);
  cuda::Graph graph(current_stream(device), [&] { got.update(); });
  for (int64_t number : {1, 3, 4}) {
    for (TrainedInF16* run : {&want, &got}) run->next(number);
    want.update();
    graph.launch();
    EXPECT_EQ(evaluated(got), evaluated(want)) << "update " << number;
  }
}

TEST_F(GptGraph, NamesATargetOutsideOfTheVocabularyAfterALaunch) {
  Trained got(device);
  Tensor loss;
  cuda::Graph graph(current_stream(device), [&] { loss = got.loss(); });
  got.next_batch(0);
  got.targets.copy_(Tensor::from<int64_t>({23}, {1}));
  graph.launch();
  testing::expect_error([&] { loss.item(); }, {"cross_entropy", "23"});
  got.next_batch(0);
  graph.launch();
  EXPECT_EQ(loss.item(), losses[0]);
}

}  // namespace
}  // namespace reprise::nn
