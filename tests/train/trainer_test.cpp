// The training loop around a model of two numbers: what it calls when, what it writes, and when it stops.
#include "reprise/train/trainer.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>

#include "reprise/autograd/ops.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/optim/optimizer_list.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"

namespace reprise::train {
namespace {

using testing::expect_error;
using testing::TempFolder;

struct Line : nn::Module {
  Tensor x = register_parameter("x", Tensor::from<float>({3, -1}, {2}));
};

// The loss |x|^2 / 2 has the gradient x, so plain steps are x -= lr * x.
struct Fixture {
  TempFolder folder;
  Line model;
  optim::Sgd optimizer{model.parameters()};
  std::vector<std::pair<int64_t, int64_t>> losses;  // (step, micro) asked for
  std::vector<bool> validations;                    // whether of the whole split
  int samples = 0;
  Task task{.model = model,
            .optimizer = optimizer,
            .units_per_step = 1,
            .loss =
                [this](int64_t step, int64_t micro) {
                  losses.emplace_back(step, micro);
                  return square(model.x).sum() * 0.5;
                },
            .validation_loss =
                [this](bool whole) {
                  validations.push_back(whole);
                  return model.x.detach().to_vector<double>()[0];
                },
            .sample =
                [this] {
                  ++samples;
                  return std::string("text");
                }};
  TrainerOptions options{.run_folder = folder.path(),
                         .schedule = {.lr = 0.1, .steps = 4, .decay = optim::Decay::constant},
                         .clip = 0,
                         .eval_every = 0,
                         .save_every = 0,
                         .retry_seconds = 1e-4};

  std::vector<double> values_of(const std::string& name) const {
    std::vector<double> found;
    for (const io::RunRecord& record : io::read_run_log(folder / "metrics.jsonl"))
      for (const auto& [key, value] : record.metrics)
        if (key == name) found.push_back(value);
    return found;
  }
  std::vector<double> x() const { return model.x.detach().to_vector<double>(); }
};

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_TRUE(testing::is_close(got, want, 1e-6));  // a few f32 roundings
}

TEST(Train, UpdatesByTheScheduleAndRecordsEveryStep) {
  Fixture f;
  f.options.schedule = {.lr = 0.4, .min_lr = 0, .warmup = 1, .steps = 3, .decay = optim::Decay::linear};
  TrainingResult result = train(f.task, f.options);
  EXPECT_EQ(result.step, 3);
  EXPECT_FALSE(result.interrupted);
  double left = 0.8 * 0.6 * 0.8;  // rates 0.2, 0.4, 0.2
  expect_near(f.x(), {3 * left, -left});
  expect_near(f.values_of("lr"), {0.2, 0.4, 0.2});
  expect_near(f.values_of("loss"), {5, 5 * 0.64, 5 * 0.64 * 0.36});
  expect_near(f.values_of("grad_norm"), {std::sqrt(10), std::sqrt(10) * 0.8, std::sqrt(10) * 0.48});
  EXPECT_EQ(f.validations, std::vector<bool>{true});
  EXPECT_NEAR(result.validation_loss, 3 * left, 1e-6);
  EXPECT_EQ(f.samples, 1);
  EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 3);
}

// x -= 0.1 (x + decay x), and what follows the weights sees them once changed.
TEST(Train, SchedulesTheWeightDecayAndTellsEachUpdate) {
  Fixture f;
  f.optimizer.groups()[0].weight_decay = 1;
  f.options.weight_decay = optim::Schedule{.lr = 1, .min_lr = 3, .steps = 4, .decay = optim::Decay::linear};
  std::vector<double> want = {3, -1}, followed, expected;
  f.task.updated = [&] { followed.push_back(f.x()[0]); };
  train(f.task, f.options);
  for (double decay : {1.0, 1.5, 2.0, 2.5}) {
    for (double& x : want) x -= 0.1 * (1 + decay) * x;
    expected.push_back(want[0]);
  }
  expect_near(f.x(), want);
  expect_near(followed, expected);
}

TEST(Train, AveragesMicroBatchesAndClipsTheirGradient) {
  Fixture f;
  f.options.accumulate = 3;
  f.options.clip = 1;
  f.options.schedule.steps = 1;
  train(f.task, f.options);
  EXPECT_EQ(f.losses, (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {0, 2}}));
  // The mean gradient is x, of norm sqrt(10): clipped to 1, less the 1e-6 of the clipping formula.
  expect_near(f.x(), {3 - 0.3 / std::sqrt(10), -1 + 0.1 / std::sqrt(10)});
  expect_near(f.values_of("grad_norm"), {std::sqrt(10)});
  expect_near(f.values_of("loss"), {5});
}

TEST(Train, EvaluatesSamplesAndSavesWhenDueAndAtTheEnd) {
  Fixture f;
  f.options.eval_every = 2;
  f.options.sample_every = 2;
  f.options.save_every = 3;
  train(f.task, f.options);
  EXPECT_EQ(f.validations, (std::vector<bool>{false, true}));
  EXPECT_EQ(f.samples, 2);
  EXPECT_EQ(f.values_of("val_loss").size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(f.folder / "checkpoints/step-00000003"));
  EXPECT_TRUE(std::filesystem::exists(f.folder / "checkpoints/step-00000004"));
}

TEST(Train, EvaluatesWithTheAveragesAndTrainsOnWithTheWeights) {
  Fixture f;
  optim::Ema ema(f.model, 0.5);
  f.task.ema = &ema;
  f.options.schedule.steps = 2;
  f.options.eval_every = 1;
  train(f.task, f.options);
  expect_near(f.x(), {3 * 0.81, -0.81});
  // (3 + 2.7) / 2, then that and 2.43 in the middle.
  expect_near(f.values_of("val_loss"), {2.85, 2.64});
}

TEST(Train, StopsAfterTheStepThatASignalComesIn) {
  for (int number : {SIGTERM, SIGINT, SIGHUP}) {
    Fixture f;
    auto loss = f.task.loss;
    f.task.loss = [&](int64_t step, int64_t micro) {
      if (step == 1) std::raise(number);
      return loss(step, micro);
    };
    TrainingResult result = train(f.task, f.options);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.step, 2);
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 2);
    EXPECT_TRUE(f.validations.empty());
    EXPECT_EQ(f.samples, 0);
  }
}

TEST(Train, ASecondInterruptDoesNotLoseTheSaveAndAThirdEndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a mere fork has no threads to train with
  auto train_with = [](int interrupts) {
    Fixture f;
    auto loss = f.task.loss;
    f.task.loss = [&](int64_t step, int64_t micro) {
      for (int i = 0; step == 1 && i < interrupts; ++i) std::raise(SIGINT);
      return loss(step, micro);
    };
    TrainingResult result = train(f.task, f.options);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 2);
    std::_Exit(0);
  };
  EXPECT_EXIT(train_with(2), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(train_with(3), ::testing::ExitedWithCode(3), "");
}

TEST(Train, AHangUpThatWasIgnoredStaysIgnored) {
  auto before = std::signal(SIGHUP, SIG_IGN);
  Fixture f;
  auto loss = f.task.loss;
  f.task.loss = [&](int64_t step, int64_t micro) {
    std::raise(SIGHUP);
    return loss(step, micro);
  };
  EXPECT_EQ(train(f.task, f.options).step, 4);
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
}

TEST(Train, ASignalBeforeTheFirstStepSavesNothing) {
  Fixture f;
  InterruptScope outer;
  std::raise(SIGTERM);
  TrainingResult result = train(f.task, f.options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.updates, 0);
  EXPECT_FALSE(has_checkpoint(f.folder.path()));
}

TEST(Train, ASignalEndsAnEvaluationAndASampleOnceTheStepIsSaved) {
  for (bool in_sample : {false, true}) {
    Fixture f;
    f.options.save_every = 1;
    auto stop = [&](bool here) {
      if (here) std::raise(SIGTERM);
      stop_if_interrupted();
    };
    f.task.validation_loss = [&](bool) {
      stop(!in_sample);
      return 1.0;
    };
    f.task.sample = [&] {
      EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
      stop(in_sample);
      return std::string();
    };
    TrainingResult result = train(f.task, f.options);
    EXPECT_TRUE(result.interrupted) << in_sample;
    EXPECT_EQ(result.step, 4);
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
    EXPECT_EQ(f.values_of("val_loss").size(), in_sample ? 1u : 0u);
  }
}

TEST(Train, AnInfiniteLossOrGradientStopsBeforeTheUpdateAndNamesTheTensor) {
  for (bool in_loss : {true, false}) {
    Fixture f;
    auto loss = f.task.loss;
    f.options.save_every = 1;
    f.task.loss = [&](int64_t step, int64_t micro) {
      Tensor good = loss(step, micro);
      if (step < 2) return good;
      // sqrt(0) is 0 with an infinite derivative.
      return in_loss ? good * double(INFINITY) : good + sqrt((f.model.x * 0.0).sum());
    };
    expect_error([&] { train(f.task, f.options); },
                 {"step 2", "first bad tensor: ", in_loss ? "none" : "gradient of x"});
    expect_near(f.x(), {3 * 0.81, -0.81});
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 2);
  }
}

// Opening a file whose path holds `part` fails `times` times: the disk is full.
class FullDisk : public io::FileCalls {
 public:
  explicit FullDisk(std::string part, int times = 1000) : part_(std::move(part)), left_(times) {}
  int open(const char* path, int flags, mode_t mode) override {
    bool full = std::string(path).find(part_) != std::string::npos && left_ > 0;
    if (!full) return FileCalls::open(path, flags, mode);
    --left_;
    errno = ENOSPC;
    return -1;
  }

 private:
  std::string part_;
  int left_;
};

// What `train` says on standard error while opening files like `part` fails.
std::string warnings_of(Fixture& f, const std::string& part, int times = 1000) {
  FullDisk disk(part, times);
  io::FileCallsScope scope(disk);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(f.task, f.options).step, f.options.schedule.steps);
  return ::testing::internal::GetCapturedStderr();
}

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(Train, GoesOnWhenACheckpointCannotBeSavedAndSavesTheNext) {
  Fixture f;
  f.options.save_every = 1;
  std::string warning = warnings_of(f, "step-00000002");
  EXPECT_EQ(count(warning, "step 2 is not saved"), 1u) << warning;
  EXPECT_EQ(count(warning, "errno 28"), 1u) << warning;
  EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
}

TEST(Train, ASaveThatFailedIsTriedAgainAfterTheNextSteps) {
  Fixture f;
  f.options.save_every = 10;
  f.options.keep = 10;
  f.options.schedule.steps = 19;
  std::vector<bool> there;  // is there a checkpoint when step s begins?
  f.task.loss = [&, loss = f.task.loss](int64_t step, int64_t micro) {
    there.push_back(has_checkpoint(f.folder.path()));
    return loss(step, micro);
  };
  // Fails after steps 10, 11 and 13; the wait is doubled each time.
  std::string warning = warnings_of(f, "model.safetensors", 3);
  EXPECT_EQ(count(warning, "warning: "), 2u) << "once that it fails, once that it works again: " << warning;
  EXPECT_EQ(count(warning, "step 17 is saved"), 1u) << warning;
  EXPECT_EQ(std::find(there.begin(), there.end(), true) - there.begin(), 17);
}

TEST(Train, TheLastSaveIsTriedSeveralTimes) {
  Fixture f;
  std::string warning = warnings_of(f, "model.safetensors", 4);
  EXPECT_EQ(count(warning, "errno 28"), 1u) << warning;
  EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
}

TEST(Train, FailsWhenTheLastCheckpointCannotBeSaved) {
  Fixture f;
  f.options.save_every = 1;
  FullDisk disk("step-00000004");
  io::FileCallsScope scope(disk);
  expect_error([&] { train(f.task, f.options); },
               {"step 4 is not saved", "5 tries", "step-00000004", "errno 28", "of step 3"});
  EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 3);
}

// The disk takes nothing for `path` from write number `first` on, `count` times, and half of a line first.
class FullFile : public io::FileCalls {
 public:
  FullFile(std::string path, int first, int count)
      : path_(std::move(path)), first_(first), last_(first + count) {}
  int open(const char* path, int flags, mode_t mode) override {
    int descriptor = FileCalls::open(path, flags, mode);
    if ((flags & O_WRONLY) && std::string(path).find(path_) != std::string::npos) doomed_ = descriptor;
    return descriptor;
  }
  int close(int descriptor) override {
    if (descriptor == doomed_) doomed_ = -1;
    return FileCalls::close(descriptor);
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    if (descriptor != doomed_) return FileCalls::write(descriptor, data, bytes);
    int number = writes_++;
    if (number == first_) return FileCalls::write(descriptor, data, bytes / 2);
    if (number < first_ || number > last_) return FileCalls::write(descriptor, data, bytes);
    errno = ENOSPC;
    return -1;
  }

 private:
  std::string path_;
  int first_, last_, doomed_ = -1, writes_ = 0;
};

TEST(Train, ALogThatCannotBeWrittenIsToldOnceAndGetsWhatItMissed) {
  for (const char* name : {"metrics.jsonl", "events.out", "samples.txt"}) {
    Fixture f;
    f.options.sample_every = 1;
    f.options.eval_every = 1;
    FullFile disk(name, 1, 3);
    io::FileCallsScope scope(disk);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(train(f.task, f.options).step, 4);
    std::string warning = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(warning, "errno 28"), 1u) << warning;
    EXPECT_EQ(count(warning, "warning: "), 2u) << "that it fails, and that it works again: " << warning;
    EXPECT_NE(warning.find(name), std::string::npos) << warning;
    expect_near(f.values_of("loss"), {5, 5 * 0.81, 5 * std::pow(0.9, 4), 5 * std::pow(0.9, 6)});
    EXPECT_EQ(f.values_of("val_loss").size(), 4u);
    std::ifstream samples(f.folder / "samples.txt");
    std::string text{std::istreambuf_iterator<char>(samples), {}};
    for (int step = 1; step <= 4; ++step)
      EXPECT_EQ(count(text, "--- step " + std::to_string(step) + " ---\ntext\n\n"), 1u) << text;
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
  }
}

TEST(Train, RecordsThatCannotBeOpenedOrDrawnDoNotEndTraining) {
  for (const char* name : {"metrics.jsonl", "events.out", "samples.txt", "loss.svg"}) {
    Fixture f;
    f.options.eval_every = 1;
    std::string warning = warnings_of(f, name);
    EXPECT_NE(warning.find(name), std::string::npos) << warning;
    EXPECT_EQ(load_checkpoint(f.folder.path(), true).step, 4);
  }
}

// Without clipping, a rate of 1e38 makes infinities of the first update.
TEST(Train, WeightsThatAreNotFiniteAreNeverSaved) {
  for (int64_t steps : {1, 4}) {
    Fixture f;
    f.options.save_every = 1;
    f.options.keep = 1;
    f.options.schedule.steps = steps;
    f.options.stop_after = steps == 1 ? 0 : 1;
    train(f.task, f.options);
    f.options.schedule = {.lr = 3e38, .steps = 2 * steps, .decay = optim::Decay::constant};
    std::vector<double> before =
        load_checkpoint(f.folder.path(), true).parameters[0].second.to_vector<double>();
    f.options.resume = true;
    expect_error([&] { train(f.task, f.options); }, {"step 2", "first bad tensor: x", "of step 1"});
    Checkpoint left = load_checkpoint(f.folder.path(), true);
    EXPECT_EQ(left.step, 1);
    EXPECT_EQ(left.parameters[0].second.to_vector<double>(), before);
  }
}

struct WithBuffer : Line {
  Tensor statistic = register_buffer("statistic", Tensor::from<double>({0, 0}, {2}));
};

TEST(Train, BuffersAndAveragesThatAreNotFiniteAreNotSaved) {
  Fixture f;
  WithBuffer model;
  optim::Sgd optimizer(model.parameters());
  Task task{.model = model,
            .optimizer = optimizer,
            .loss = [&](int64_t, int64_t) { return square(model.x).sum(); },
            .validation_loss = {},
            .sample = {}};
  model.statistic.fill_(std::numeric_limits<double>::quiet_NaN());
  expect_error([&] { train(task, f.options); },
               {"step 4", "first bad tensor: statistic", "nothing is saved"});
  EXPECT_FALSE(has_checkpoint(f.folder.path()));

  Fixture g;
  optim::Ema ema(g.model, 0.5);
  ema.state_dict()[0].second.fill_(INFINITY);
  g.task.ema = &ema;
  expect_error([&] { train(g.task, g.options); }, {"step 4", "the average of x"});
  EXPECT_FALSE(has_checkpoint(g.folder.path()));
}

struct Plane : nn::Module {
  Tensor x = register_parameter("x", Tensor::from<float>({3}, {1}));
  Tensor y = register_parameter("y", Tensor::from<float>({2}, {1}));
};

// x and y after four steps, with a fresh program after every `stop_after` of them.
std::vector<double> train_with_two_optimizers(int64_t stop_after) {
  TempFolder folder;
  for (int call = 0; call < 4; ++call) {
    Plane model;
    optim::Sgd first({model.x}, {.lr = 0.1, .momentum = 0.9});
    optim::Sgd second(
        std::vector<optim::ParameterGroup>{{.parameters = {model.y}, .lr = 0.1, .lr_scale = 0.5}});
    optim::OptimizerList both({first, second});
    Task task{.model = model,
              .optimizer = both,
              .units_per_step = 1,
              .loss = [&](int64_t, int64_t) { return (square(model.x) + square(model.y)).sum() * 0.5; },
              .validation_loss = [](bool) { return 0.0; },
              .sample = [] { return std::string("text"); }};
    TrainerOptions options{.run_folder = folder.path(),
                           .resume = call > 0,
                           .schedule = {.lr = 0.1, .steps = 4, .decay = optim::Decay::constant},
                           .clip = 0,
                           .stop_after = stop_after};
    if (train(task, options).step == 4) return {model.x.item(), model.y.item()};
  }
  return {};
}

TEST(Train, TakesSeveralOptimizersAsOneAndGoesOnWithTheState) {
  double x = 3, velocity = 0, y = 2;
  for (int step = 0; step < 4; ++step) {
    velocity = 0.9 * velocity + x;
    x -= 0.1 * velocity;
    y -= 0.05 * y;
  }
  expect_near(train_with_two_optimizers(0), {x, y});
  EXPECT_EQ(train_with_two_optimizers(1), train_with_two_optimizers(0));
}

TEST(Train, ResumesOnlyWhatItsTaskDescribes) {
  Fixture f;
  f.task.description = {{"size", "2"}};
  f.options.stop_after = 2;
  train(f.task, f.options);
  Fixture other;
  other.options.run_folder = f.folder.path();
  other.options.resume = true;
  other.task.description = {{"size", "3"}};
  expect_error([&] { train(other.task, other.options); }, {"resume", f.folder.path()});
  expect_near(other.x(), {3, -1});
  other.task.description = f.task.description;
  optim::Ema ema(other.model, 0.5);
  other.task.ema = &ema;
  expect_error([&] { train(other.task, other.options); }, {"resume", "--ema"});
  other.task.ema = nullptr;
  EXPECT_EQ(train(other.task, other.options).step, 4);
  expect_near(other.x(), {3 * std::pow(0.9, 4), -std::pow(0.9, 4)});
  expect_error([&] { train(other.task, other.options); }, {"step 4", "--steps"});
}

}  // namespace
}  // namespace reprise::train
