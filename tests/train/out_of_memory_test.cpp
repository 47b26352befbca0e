// Memory that runs out in training: the Error says in which phase, and what cannot help there.
#include <gtest/gtest.h>

#include <new>

#include "reprise/autograd/ops.h"
#include "reprise/io/file_calls.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/phase.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

struct Line : nn::Module {
  Tensor x = register_parameter("x", Tensor::from<float>({3, -1}, {2}));
};

struct Fixture {
  testing::TempFolder folder;
  Line model;
  optim::Sgd optimizer{model.parameters()};
  Task task{.model = model,
            .optimizer = optimizer,
            .units_per_step = 1,
            .loss = [this](int64_t, int64_t) { return square(model.x).sum(); },
            .validation_loss = [](bool) { return 1.0; },
            .sample = [] { return std::string("text"); }};
  TrainerOptions options{.run_folder = folder.path(),
                         .schedule = {.lr = 0.1, .steps = 4, .decay = optim::Decay::constant},
                         .eval_every = 0,
                         .save_every = 0,
                         .retry_seconds = 1e-4};
};

// What `train` throws where memory runs out.
template <class Fail>
void expect_out_of_memory_in(Phase phase, const std::vector<std::string>& parts, const Fail& prepare) {
  Fixture f;
  prepare(f);
  try {
    train(f.task, f.options);
    FAIL() << "nothing thrown: " << parts[0];
  } catch (const OutOfMemoryIn& error) {
    EXPECT_EQ(error.phase(), phase) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(OutOfMemory, SaysInWhichPhaseOfTrainingItCame) {
  const std::string unchanged = " takes as much with any --recompute and --batch";
  expect_out_of_memory_in(Phase::step, {"training step: no room"}, [](Fixture& f) {
    f.task.loss = [](int64_t, int64_t) -> Tensor { throw OutOfMemory("no room"); };
  });
  expect_out_of_memory_in(Phase::step, {"training step: out of memory that no tensor holds"}, [](Fixture& f) {
    f.task.loss = [](int64_t, int64_t) -> Tensor { throw std::bad_alloc(); };
  });
  expect_out_of_memory_in(Phase::evaluation, {"evaluation: no room"}, [](Fixture& f) {
    f.task.validation_loss = [](bool) -> Validation { throw OutOfMemory("no room"); };
  });
  expect_out_of_memory_in(
      Phase::sampling, {"train: after step 4: no room", "sampling" + unchanged},
      [](Fixture& f) { f.task.sample = []() -> std::string { throw OutOfMemory("no room"); }; });
}

// Nothing is written where there is no memory for it.
struct NoMemoryToWrite final : io::FileCalls {
  int fsync(int) override { throw std::bad_alloc(); }
};

TEST(OutOfMemory, InSavingIsTriedAgainAndTold) {
  NoMemoryToWrite calls;
  const io::FileCallsScope scope(calls);
  expect_out_of_memory_in(
      Phase::saving,
      {"step 4 is not saved, after 5 tries: ", "saving takes as much with any --recompute and --batch"},
      [](Fixture&) {});
}

}  // namespace
}  // namespace reprise::train
