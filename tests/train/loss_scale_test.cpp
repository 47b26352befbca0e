// Training with a loss scale: a step whose gradients overflow changes nothing, and a run that is stopped goes on as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::TempFolder;

/// A layer and its running statistics.
struct Net : nn::Module {
  nn::Linear first{4, 6};
  nn::BatchNorm1d norm{6};
  Net() {
    register_module("first", first);
    register_module("norm", norm);
  }
  Tensor operator()(const Tensor& x) { return norm.forward(first.forward(x)); }
};

struct Seeded {
  Seeded() { manual_seed(7); }
};

struct Fixture {
  TempFolder folder;
  Seeded seeded;
  Net model;
  optim::AdamW optimizer{model.parameters(), {.lr = 0.05}};
  optim::Ema ema{model, 0.5};
  int updates_told = 0;
  int64_t bad_step = -1;
  std::function<Tensor(const Tensor&)> spoil;
  Task task{.model = model,
            .optimizer = optimizer,
            .ema = &ema,
            .units_per_step = 1,
            .loss = [this](int64_t step, int64_t micro) { return loss(step, micro); },
            .updated = [this] { ++updates_told; },
            .validation_loss = [](bool) { return 1.0; }};
  TrainerOptions options{.run_folder = folder.path(),
                         .schedule = {.lr = 0.05, .steps = 8, .decay = optim::Decay::linear},
                         .accumulate = 2,
                         .clip = 0.5,
                         .loss_scale = 1024,
                         .eval_every = 0,
                         .save_every = 0,
                         .retry_seconds = 1e-4};

  Tensor loss(int64_t step, int64_t micro) {
    std::vector<float> x(5 * 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(std::sin(double(step * 100 + micro * 50) + double(i)));
    const Tensor mean = square(model(Tensor::from(x, {5, 4}))).mean() * 0.5 + model.first.weight.sum();
    return step == bad_step && micro == 1 ? spoil(mean) : mean;
  }
  std::vector<double> values_of(const std::string& name) const {
    std::vector<double> found;
    for (const io::RunRecord& record : io::read_run_log(folder / "metrics.jsonl"))
      for (const auto& [key, value] : record.metrics)
        if (key == name) found.push_back(value);
    return found;
  }
};

// The same updates by hand and without a scale, where `skipped` is left out.
void train_by_hand(Fixture& f, int64_t skipped) {
  for (int64_t step = 0; step < f.options.schedule.steps; ++step) {
    if (step == skipped) continue;
    for (int64_t micro = 0; micro < 2; ++micro) (f.loss(step, micro) / 2.0).backward();
    f.optimizer.set_lr(f.options.schedule(step));
    f.optimizer.step(optim::clip_scale(optim::grad_norm(f.model.parameters()), 0.5));
    f.optimizer.zero_grad();
    f.ema.update();
  }
}

TEST(LossScale, AnOverflowChangesNothingButTheScale) {
  const std::function<Tensor(const Tensor&)> spoils[] = {
      [](const Tensor& loss) { return loss * INFINITY; }, [](const Tensor& loss) { return loss * NAN; },
      [](const Tensor& loss) { return loss + INFINITY; }};  // whose gradient is finite
  for (const auto& spoil : spoils)
    for (int64_t bad : {-1, 0, 3, 7}) {
      Fixture f, want;
      f.bad_step = bad, f.spoil = spoil;
      train(f.task, f.options);
      train_by_hand(want, bad);
      const std::string what = "bad step " + std::to_string(bad);
      EXPECT_TRUE(same_bits(f.model.state_dict(), want.model.state_dict())) << what;
      EXPECT_TRUE(same_bits(f.ema.state_dict(), want.ema.state_dict())) << what;
      EXPECT_TRUE(same_bits(f.optimizer.state_dict(), want.optimizer.state_dict())) << what;
      EXPECT_EQ(f.updates_told, bad < 0 ? 8 : 7) << what;
      EXPECT_EQ(f.values_of("loss_scale").back(), bad < 0 ? 1024 : 512) << what;
      EXPECT_EQ(f.values_of("skipped").back(), bad < 0 ? 0 : 1) << what;
      for (size_t step = 0; step < 8; ++step)
        EXPECT_EQ(f.values_of("updates").at(step), double(step + 1) - (bad >= 0 && int64_t(step) >= bad))
            << what;
      EXPECT_EQ(f.values_of("loss").size(), 8u - (bad >= 0)) << what;
      EXPECT_EQ(f.values_of("grad_norm").size(), bad < 0 ? 8u : 7u) << what;
      EXPECT_EQ(f.values_of("lr").size(), 8u) << "a skipped update is a step all the same";
    }
}

TEST(LossScale, GrowsAfterTheIntervalThatIsGiven) {
  Fixture f;
  f.options.scale_interval = 3;
  train(f.task, f.options);
  EXPECT_EQ(f.values_of("loss_scale"), (std::vector<double>{1024, 1024, 2048, 2048, 2048, 4096, 4096, 4096}));
}

TEST(LossScale, SaysWhatItSkips) {
  Fixture f;
  f.bad_step = 3, f.spoil = [](const Tensor& loss) { return loss * INFINITY; };
  ::testing::internal::CaptureStdout();
  train(f.task, f.options);
  const std::string said = ::testing::internal::GetCapturedStdout();
  const std::string line = "step 4: gradients are not finite at scale 1024; skipped, scale 512\n";
  EXPECT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(said.find("skipped"), said.rfind("skipped")) << said;
}

TEST(LossScale, GoesOnFromACheckpoint) {
  Fixture whole;
  whole.bad_step = 3;
  whole.spoil = [](const Tensor& loss) { return loss * INFINITY; };
  train(whole.task, whole.options);
  const Checkpoint want = load_checkpoint(whole.folder.path(), true);
  EXPECT_EQ(want.loss_scale.size(), 5u);
  for (int64_t stop : {1, 3, 4, 6}) {
    Fixture first, second;
    first.bad_step = second.bad_step = 3;
    first.spoil = second.spoil = whole.spoil;
    first.options.stop_after = stop;
    train(first.task, first.options);
    second.options.run_folder = first.folder.path();
    second.options.resume = true;
    second.options.loss_scale = 8;  // the checkpoint's is taken
    train(second.task, second.options);
    const Checkpoint got = load_checkpoint(first.folder.path(), true);
    const std::string what = "stopped after " + std::to_string(stop);
    EXPECT_TRUE(same_bits(got.parameters, want.parameters)) << what;
    EXPECT_TRUE(same_bits(got.optimizer, want.optimizer)) << what;
    EXPECT_TRUE(same_bits(got.ema, want.ema)) << what;
    EXPECT_TRUE(same_bits(got.loss_scale, want.loss_scale)) << what;
  }
}

TEST(LossScale, BeginsAnewAfterARunWithoutOneIfToldWhere) {
  Fixture plain, scaled;
  plain.options.loss_scale = 0;
  plain.options.stop_after = 4;
  train(plain.task, plain.options);
  EXPECT_TRUE(load_checkpoint(plain.folder.path(), true).loss_scale.empty());
  EXPECT_FALSE(std::filesystem::exists(plain.folder / "checkpoints/step-00000004/loss_scale.safetensors"));
  scaled.options.run_folder = plain.folder.path();
  scaled.options.resume = true;
  expect_error([&] { train(scaled.task, scaled.options); }, {"has no loss scale", "--init-scale"});
  scaled.options.loss_scale_is_given = true;
  train(scaled.task, scaled.options);
  Fixture want;
  train_by_hand(want, -1);
  EXPECT_TRUE(same_bits(scaled.model.state_dict(), want.model.state_dict())) << "half of it with a scale";
}

TEST(LossScale, GivesUpWhereNoScaleHelps) {
  Fixture f;
  f.task.loss = [&](int64_t step, int64_t micro) { return f.loss(step, micro) * NAN; };
  f.options.schedule.steps = 100;
  expect_error([&] { train(f.task, f.options); },
               {"train: step 10", "11 updates in a row", "the scale is 0.5", "min_scale",
                "first bad tensor: the gradient of first.weight"});
  EXPECT_FALSE(has_checkpoint(f.folder.path()));
}

}  // namespace
}  // namespace reprise::train
