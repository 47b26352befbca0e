// The folder that the training loop makes, and those that it does not take.
#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/errors.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

struct Point : nn::Module {
  Tensor x = register_parameter("x", Tensor::from<float>({3, -1}, {2}));
};

TEST(TrainersFolder, IsMadeAndNoOthersIsTaken) {
  testing::TempFolder folder;
  Point model;
  optim::Sgd optimizer(model.parameters());
  Task task{.model = model, .optimizer = optimizer};
  task.loss = [&](int64_t, int64_t) { return square(model.x).sum(); };
  task.validation_loss = [](bool) { return Validation(0); };
  TrainerOptions options{.run_folder = folder / "runs/of/ours", .schedule = {.lr = 0.1, .steps = 4}};
  EXPECT_EQ(train(task, options).updates, 4);
  EXPECT_EQ(load_checkpoint(options.run_folder, true).step, 4);

  const std::vector<float> before = model.x.to_vector<float>();
  testing::expect_error(
      [&] { train(task, options); },
      "train: the run in " + options.run_folder + " has a checkpoint: resume it, or name another folder");
  EXPECT_EQ(model.x.to_vector<float>(), before);
  options.resume = true;
  options.schedule.steps = 6;
  EXPECT_EQ(train(task, options).updates, 2);
}

}  // namespace
}  // namespace reprise::train
