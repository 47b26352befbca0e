// What a step is predicted to take, against what steps take.
// slow in asan
#include "reprise/nn/memory/step_memory.h"

#include <gtest/gtest.h>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/models/llama.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/unet.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/lars.h"
#include "reprise/nn/optim/optimizer_list.h"
#include "reprise/nn/optim/sgd.h"

namespace reprise::nn {
namespace {

struct Case {
  std::string name;
  std::shared_ptr<nn::Module> model;
  nn::RecomputeSetting& blocks;
  std::function<Tensor(int64_t rows)> loss;
};

/// x (n) -> (rows, n)
Tensor repeat_rows(const Tensor& x, int64_t rows) {
  return x.reshape({1, x.numel()}).expand({rows, x.numel()}).contiguous();
}

Tensor classes_of(int64_t rows) { return zeros({rows}, DType::i64); }

std::vector<Case> cases() {
  auto gpt = std::make_shared<nn::Gpt>(
      nn::GptOptions{.vocab_size = 65, .context = 16, .layers = 3, .heads = 2, .width = 32, .dropout = 0.1});
  auto vit = std::make_shared<nn::Vit>(nn::VitOptions{.image = 16,
                                                      .patch = 4,
                                                      .channels = 1,
                                                      .classes = 10,
                                                      .width = 32,
                                                      .layers = 3,
                                                      .heads = 2,
                                                      .stem = nn::Stem::conv,
                                                      .class_token = false,
                                                      .pool = nn::Pool::avg,
                                                      .drop_path = 0.1});
  auto resnet = std::make_shared<nn::ResNet>(
      nn::ResNetOptions{.classes = 10, .width = 8, .stem = nn::ResNetStem::cifar});
  auto jepa = std::make_shared<nn::Jepa>(nn::JepaOptions{.image = 16,
                                                         .patch = 4,
                                                         .channels = 1,
                                                         .width = 32,
                                                         .layers = 3,
                                                         .heads = 2,
                                                         .predictor_width = 16,
                                                         .predictor_layers = 2,
                                                         .predictor_heads = 2});
  auto llama = std::make_shared<nn::Llama>(
      nn::LlamaOptions{.vocab_size = 65, .context = 16, .layers = 3, .heads = 2, .kv_heads = 1, .width = 32});
  auto gpt_like_llama = std::make_shared<nn::Gpt>(nn::GptOptions{.vocab_size = 65,
                                                                 .context = 16,
                                                                 .layers = 3,
                                                                 .heads = 2,
                                                                 .kv_heads = 1,
                                                                 .width = 32,
                                                                 .gated = true,
                                                                 .bias = false,
                                                                 .norm = NormKind::rms,
                                                                 .rotary = true,
                                                                 .tied = false,
                                                                 .activation = Activation::silu});
  auto unet = std::make_shared<nn::UNet>(nn::UNetOptions{.classes = 2, .features = 4, .depth = 2});
  const auto of_tokens = [](auto model) {
    return [model](int64_t rows) {
      const Tensor tokens = zeros({rows, 16}, DType::i64);
      return cross_entropy((*model)(tokens), tokens);
    };
  };
  return {{"jepa", jepa, jepa->encoder.blocks,
           [jepa](int64_t rows) {
             const Tensor context = arange(8);
             const Tensor pixels = zeros({rows, 1, 16, 16});
             return jepa->loss(pixels, jepa->target_features(pixels), repeat_rows(context, rows),
                               reshape(repeat_rows(context, rows), {rows, 2, 4}));
           }},
          {"gpt", gpt, gpt->h, of_tokens(gpt)},
          {"vit", vit, vit->blocks,
           [vit](int64_t rows) {
             return cross_entropy((*vit)(zeros({rows, 1, 16, 16})), classes_of(rows));
           }},
          {"resnet", resnet, resnet->blocks,
           [resnet](int64_t rows) {
             return cross_entropy((*resnet)(zeros({rows, 3, 16, 16})), classes_of(rows));
           }},
          {"llama", llama, llama->layers, of_tokens(llama)},
          {"gpt like a llama", gpt_like_llama, gpt_like_llama->h, of_tokens(gpt_like_llama)},
          {"unet", unet, *unet, [unet](int64_t rows) {
             return square((*unet)(zeros({rows, 3, 16, 16}))).mean();
           }}};
}

StepMemoryOptions options_of(const Case& c) {
  return {.device = {},
          .loss = c.loss,
          .set_recompute = [&c](const RecomputeStrategy& strategy) { c.blocks.set_recompute(strategy); },
          .smallest = 2};
}

size_t peak_of_step(const Case& c, int64_t rows) {
  Allocator& memory = allocator(Device());
  memory.reset_peaks();
  c.loss(rows).backward();
  c.model->zero_grad();
  return memory.stats().peak_held;
}

TEST(StepMemory, PredictsThePeak) {
  for (const Case& c : cases())
    for (const char* strategy : {"none", "selective", "full"}) {
      SCOPED_TRACE(c.name + " " + strategy);
      const StepMemory memory = measure_step(*c.model, options_of(c), parse_strategy(strategy));
      for (int64_t rows : {4, 32}) {
        const double peak = double(peak_of_step(c, rows));
        EXPECT_NEAR(double(memory.peak(rows)), peak, 0.02 * peak) << rows << " rows";
      }
    }
}

// A batch so small that the update takes more than backward did, of weights that are a few large matrices.
TEST(StepMemory, CountsTheOptimizersStep) {
  auto vit = std::make_shared<nn::Vit>(nn::VitOptions{
      .image = 8, .patch = 4, .channels = 1, .classes = 10, .width = 128, .layers = 1, .heads = 2});
  const Case c{"vit", vit, vit->blocks, [vit](int64_t rows) {
                 return cross_entropy((*vit)(zeros({rows, 1, 8, 8})), classes_of(rows));
               }};
  const TensorList all = vit->parameters();
  const auto half = all.begin() + int64_t(all.size() / 2);
  optim::AdamW adamw(all);
  optim::Sgd sgd(all, {.lr = 0.1, .momentum = 0.9});
  optim::Lamb lamb(all);
  optim::Lars lars(all, {.weight_decay = 0.1});
  optim::Lamb front(TensorList(all.begin(), half));
  optim::Sgd back(TensorList(half, all.end()), {.lr = 0.1});
  optim::OptimizerList both({back, front});
  const std::vector<std::pair<std::string, optim::Optimizer*>> optimizers = {
      {"adamw", &adamw}, {"sgd", &sgd}, {"lamb", &lamb}, {"lars", &lars}, {"lamb and sgd", &both}};
  for (const auto& [name, optimizer] : optimizers) optimizer->allocate_state();
  Allocator& memory = allocator(Device());
  for (const auto& [name, optimizer] : optimizers) {
    SCOPED_TRACE(name);
    StepMemoryOptions options = options_of(c);
    const size_t without = measure_step(*vit, options, parse_strategy("none")).peak(2);
    options.optimizer = optimizer;
    const StepMemory step = measure_step(*vit, options, parse_strategy("none"));
    memory.reset_peaks();
    c.loss(2).backward();
    optimizer->step(optim::clip_scale(optim::grad_norm(all), 0.1));
    vit->zero_grad();
    const double peak = double(memory.stats().peak_held);
    EXPECT_NEAR(double(step.peak(2)), peak, 0.02 * peak);
    EXPECT_EQ(step.peak(2) > without, name.starts_with("la"))
        << "what this test is for: " << without << " bytes without";
  }
}

TEST(StepMemory, TheLargestBatchTrainsUnderItsLimitAndTwiceItDoesNot) {
  Allocator& memory = allocator(Device());
  for (const Case& c : cases())
    for (const char* strategy : {"none", "selective", "full"}) {
      SCOPED_TRACE(c.name + " " + strategy);
      const StepMemory step = measure_step(*c.model, options_of(c), parse_strategy(strategy));
      const size_t limit = memory.stats().held + (3 << 20);
      const int64_t rows = step.largest(room_in(limit));
      EXPECT_GE(rows, 2);
      memory.empty_cache();
      memory.set_limit(limit);
      EXPECT_NO_THROW(peak_of_step(c, rows));
      EXPECT_THROW(peak_of_step(c, 2 * rows), OutOfMemory);
      c.model->zero_grad();
      memory.set_limit(0);
    }
}

TEST(StepMemory, MeasuringChangesNothing) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> before;
    for (const auto& [name, tensor] : c.model->state_dict()) before.push_back(tensor.clone());
    manual_seed(3);
    const double draw = rand({1}).item();
    manual_seed(3);
    measure_step(*c.model, options_of(c), parse_strategy("full"));
    EXPECT_EQ(rand({1}).item(), draw);
    size_t i = 0;
    for (const auto& [name, tensor] : c.model->state_dict()) {
      const Tensor& was = before[i++];
      EXPECT_EQ(cast(tensor, DType::f64).to_vector<double>(), cast(was, DType::f64).to_vector<double>())
          << name;
    }
    for (const Tensor& parameter : c.model->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(StepMemory, MicroBatchesAfterTheFirstFindGradientsThere) {
  const Case c = cases()[1];
  StepMemoryOptions options = options_of(c);
  const StepMemory alone = measure_step(*c.model, options, parse_strategy("none"));
  options.sums = 1;
  const StepMemory accumulated = measure_step(*c.model, options, parse_strategy("none"));
  Allocator& memory = allocator(Device());
  c.loss(8).backward();
  memory.reset_peaks();
  c.loss(8).backward();
  const double peak = double(memory.stats().peak_held);
  c.model->zero_grad();
  EXPECT_GT(accumulated.peak(8), alone.peak(8));
  EXPECT_NEAR(double(accumulated.peak(8)), peak, 0.02 * peak);
}

// Of eight micro-batches three partial sums are there as the last one begins.
TEST(StepMemory, PartialSumsOfGradientsCount) {
  const Case c = cases()[1];
  StepMemoryOptions options = options_of(c);
  options.sums = distributed::most_sums({0, 8});
  const StepMemory predicted = measure_step(*c.model, options, parse_strategy("none"));
  Allocator& memory = allocator(Device());
  const auto group = distributed::ProcessGroup::alone();
  distributed::DataParallel parallel(*c.model, *group);
  memory.reset_peaks();
  for (int64_t g : parallel.share(8)) parallel.backward(c.loss(8), g);
  const double peak = double(memory.stats().peak_held);
  c.model->zero_grad();
  EXPECT_NEAR(double(predicted.peak(8)), peak, 0.02 * peak);
}

TEST(StepMemory, ThePeakMayMoveFromOneMomentToAnother) {
  // Two tensors that are there one after the other: of 64 KiB whatever the rows, and of 16 KiB per row.
  auto step = [](int64_t rows) {
    return MeasuredStep{rows, 1 << 20, {{0, 1 << 16}, {0, -(1 << 16)}, {0, rows << 14}, {0, -(rows << 14)}}};
  };
  const StepMemory memory(step(1), step(2), allocator(Device()));
  EXPECT_EQ(memory.peak(1), (1 << 20) + (1 << 16));
  EXPECT_EQ(memory.peak(4), (1 << 20) + (1 << 16));
  EXPECT_EQ(memory.peak(64), (1 << 20) + (1 << 20));
  EXPECT_EQ(memory.largest((1 << 20) + (1 << 18)), 16);
  EXPECT_EQ(memory.largest(1 << 20), 0);
}

TEST(StepMemory, StepsThatMakeOtherTensorsAreALineThroughTheirPeaks) {
  const MeasuredStep few{2, 0, {{0, 2 << 20}, {0, -(2 << 20)}}},
      many{4, 0, {{0, 4 << 20}, {0, 1 << 20}, {0, -(5 << 20)}}};
  const StepMemory memory(few, many, allocator(Device()));
  EXPECT_EQ(memory.peak(2), 2 << 20);
  EXPECT_EQ(memory.peak(4), 5 << 20);
  EXPECT_EQ(memory.peak(6), 8 << 20);
}

}  // namespace
}  // namespace reprise::nn
