// What a training step waits for on a GPU: nothing but the step before, on streams that run as late as they may.
#include <array>
#include <cmath>
#include <optional>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/random.h"
#include "reprise/core/stream.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/core/cuda/deferred_streams.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using cuda::emulated::HostWaits;
using testing::TempFolder;

class EmulatedHostWaits : public DeferredStreamsTest {};

constexpr int64_t steps = 6, width = 16, context = 8, alphabet = 11;

struct Case {
  const char* name;
  std::optional<DType> autocast{};
  double loss_scale = 0;
  double dropout = 0;
};

struct Seen {
  std::vector<HostWaits> waits;  // from each step's first forward pass to the next one's
  std::vector<std::array<size_t, 2>>
      pending{};  // pieces of work on the stream before each step's two micro-batches
};

Seen train_and_look(const Case& c, Device device) {
  TempFolder folder;
  manual_seed(3);
  nn::Gpt model({.vocab_size = alphabet,
                 .context = context,
                 .layers = 2,
                 .heads = 2,
                 .width = width,
                 .dropout = c.dropout});
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  // With a loss scale a decay that follows the count of updates waits for that count.
  optim::Ema ema = c.loss_scale > 0 ? optim::Ema(model, 0.9) : optim::Ema(model, optim::ema_warmup(0.9));
  std::vector<int64_t> numbers(2 * (context + 1));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i * i) % alphabet;
  const Tensor tokens = Tensor::from(numbers, {2, context + 1}).to(device);
  std::vector<HostWaits> at;
  Seen seen;
  Task task{.model = model,
            .optimizer = optimizer,
            .ema = &ema,
            .units_per_step = 1,
            .loss =
                [&](int64_t, int64_t micro) {
                  if (micro == 0) at.push_back(cuda::emulated::host_waits()), seen.pending.emplace_back();
                  seen.pending.back()[size_t(micro)] =
                      cuda::emulated::pending(current_stream(device).handle());
                  std::optional<amp::Autocast> scope;
                  if (c.autocast) scope.emplace(device, *c.autocast);
                  return cross_entropy(model(tokens.slice(1, 0, context)), tokens.slice(1, 1, context + 1));
                },
            .validation_loss = [](bool) { return 1.0; }};
  train(task, {.run_folder = folder.path(),
               .schedule = {.lr = 1e-3, .steps = steps},
               .accumulate = 2,
               .loss_scale = c.loss_scale,
               .eval_every = 0,
               .save_every = 0});
  for (size_t i = 1; i < at.size(); ++i)
    seen.waits.push_back({at[i].streams - at[i - 1].streams, at[i].events - at[i - 1].events,
                          at[i].copies - at[i - 1].copies});
  return seen;
}

TEST_F(EmulatedHostWaits, NoHostWaits) {
  for (const Case& c : std::vector<Case>{{.name = "f32"},
                                         {.name = "f32, dropout", .dropout = 0.1},
                                         {.name = "bf16", .autocast = DType::bf16},
                                         {.name = "f16", .autocast = DType::f16, .loss_scale = 1024}}) {
    const auto [waits, pending] = train_and_look(c, device);
    ASSERT_EQ(waits.size(), size_t(steps - 1));
    for (size_t i = 1; i < waits.size(); ++i) {  // the first step's numbers are shown at once
      EXPECT_EQ(waits[i].streams, 0u) << c.name << ", step " << i;
      EXPECT_EQ(waits[i].copies, 0u) << c.name << ", step " << i;
      EXPECT_LE(waits[i].events, 2u) << c.name << ", step " << i;
      const auto [before_first, before_second] = pending[i + 1];
      EXPECT_GT(before_first, 2 * (before_second - before_first))
          << c.name << ": as step " << i + 1 << " begins, all of step " << i << " is still to be computed";
    }
  }
}

struct Line : nn::Module {
  Tensor x = register_parameter("x", Tensor::from<float>({3, -1}, {2}));
};

// The host learns of it a step late: neither that step nor the one that it has begun changes the weights.
TEST_F(EmulatedHostWaits, AnUpdateThatIsNotFiniteIsNotMadeThoughTheHostIsAStepAhead) {
  for (bool in_loss : {true, false}) {
    TempFolder folder;
    Line model;
    model.to(device);
    optim::Sgd optimizer(model.parameters());
    optim::Ema ema(model, 0.5);
    int64_t last = -1;
    Task task{.model = model,
              .optimizer = optimizer,
              .ema = &ema,
              .units_per_step = 1,
              .loss =
                  [&](int64_t step, int64_t) {
                    last = step;
                    const Tensor good = square(model.x).sum() * 0.5;  // x becomes 0.9 x
                    if (step != 2) return good;
                    // The square root of 0 has an infinite derivative.
                    return in_loss ? good + double(INFINITY) : good + sqrt((model.x * 0.0).sum());
                  },
              .validation_loss = [](bool) { return 1.0; }};
    const std::string told = message_of([&] {
      train(task, {.run_folder = folder.path(),
                   .schedule = {.lr = 0.1, .steps = 8, .decay = optim::Decay::constant},
                   .clip = 0,
                   .eval_every = 0,
                   .save_every = 0});
    });
    EXPECT_EQ(last, 3) << "the host was a step ahead";
    EXPECT_NE(
        told.find(in_loss
                      ? "train: the loss is inf at step 2; first bad tensor: none"
                      : "train: the gradient is not finite at step 2; first bad tensor: the gradient of x"),
        std::string::npos)
        << told;
    EXPECT_NEAR(model.x.detach().to_vector<double>()[0], 3 * 0.81, 1e-6);
    const double average = 0.5 * (0.5 * (3 + 3 * 0.9) + 3 * 0.81);  // of two updates, as the weights are
    EXPECT_NEAR(ema.state_dict()[0].second.to_vector<double>()[0], average, 1e-6);
    EXPECT_FALSE(has_checkpoint(folder.path()));
    std::vector<int64_t> recorded;
    for (const io::RunRecord& record : io::read_run_log(folder / "metrics.jsonl"))
      recorded.push_back(record.step);
    EXPECT_EQ(recorded, (std::vector<int64_t>{1, 2}));
  }
}

}  // namespace
}  // namespace reprise::train
