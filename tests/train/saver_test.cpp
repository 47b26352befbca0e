// Checkpoints that are written while training goes on: of the step that they are of, one at a time, and what is told of those
// that fail.
// labels: concurrency
#include "reprise/train/saver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <thread>

#include "reprise/io/file_calls.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/errors.h"

namespace reprise::train {
namespace {

using testing::TempFolder;

// Files that reach the disk only while `is_open`, or not at all.
class Disk final : public io::FileCalls {
 public:
  std::atomic<bool> is_open{true}, is_full{false};
  int fsync(int descriptor) override {
    while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!is_full) return FileCalls::fsync(descriptor);
    errno = ENOSPC;
    return -1;
  }
};

Checkpoint checkpoint_of(int64_t step, const Tensor& weight) {
  return {.step = step, .parameters = {{"weight", weight}}, .optimizer = {{"moment", weight}}};
}

std::vector<float> saved_weight(const std::string& folder) {
  return load_checkpoint(folder, true).parameters.at(0).second.to_vector<float>();
}

struct AsyncSaver : ::testing::Test {
  TempFolder folder;
  Disk disk;
  io::FileCallsScope scope{disk};
  std::vector<std::string> told;
  Saver saver{{.run_folder = folder.path(), .keep = 5, .retry_seconds = 0.001, .is_async = true},
              -1,
              [this](const std::string& line) { told.push_back(line); }};
  const Tensor weight = Tensor::from<float>({1, 2, 3}, {3});
};

TEST_F(AsyncSaver, KeepsTheStepItIsOfWhileTrainingGoesOn) {
  disk.is_open = false;
  saver.try_to_save(checkpoint_of(1, weight));
  weight.fill_(9);  // the next step
  EXPECT_FALSE(has_checkpoint(folder.path()));
  EXPECT_FALSE(saver.wants_another_try(2));
  disk.is_open = true;
  EXPECT_EQ(saver.saved_step(), 1);
  EXPECT_EQ(saved_weight(folder.path()), (std::vector<float>{1, 2, 3}));
  saver.try_to_save(checkpoint_of(2, weight));
  saver.try_to_save(checkpoint_of(3, weight));  // waits for the one before
  saver.save_last(checkpoint_of(4, weight));
  EXPECT_EQ(saver.saved_step(), 4);
  for (const char* step : {"1", "2", "3", "4"})
    EXPECT_EQ(load_checkpoint(folder / "checkpoints/step-0000000" + step, true).optimizer.size(), 1u) << step;
  EXPECT_TRUE(told.empty());
}

TEST_F(AsyncSaver, TellsAFailureOnceAndTriesAgain) {
  disk.is_full = true;
  saver.try_to_save(checkpoint_of(1, weight));
  EXPECT_EQ(saver.saved_step(), -1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].starts_with("step 1 is not saved, which is tried again: ")) << told[0];
  EXPECT_TRUE(saver.wants_another_try(2));
  saver.try_to_save(checkpoint_of(2, weight));
  EXPECT_EQ(saver.saved_step(), -1);
  EXPECT_EQ(told.size(), 1u);
  EXPECT_FALSE(saver.wants_another_try(3)) << "the second distance is two steps";
  EXPECT_TRUE(saver.wants_another_try(4));
  disk.is_full = false;
  saver.try_to_save(checkpoint_of(4, weight));
  EXPECT_EQ(saver.saved_step(), 4);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], "step 4 is saved");
  EXPECT_FALSE(saver.wants_another_try(5));
}

TEST_F(AsyncSaver, RefusesWhatIsNotFiniteAtOnce) {
  const Tensor bad = Tensor::from<float>({1, NAN}, {2});
  testing::expect_error([&] { saver.try_to_save(checkpoint_of(1, bad)); }, "first bad tensor: weight");
  EXPECT_EQ(saver.saved_step(), -1);
  EXPECT_FALSE(has_checkpoint(folder.path()));
}

// A run that ends by an Error leaves what it had begun to save.
TEST(AsyncSaverThatGoes, FinishesWhatItWrites) {
  TempFolder folder;
  const Tensor weight = Tensor::from<float>({4}, {1});
  {
    Saver saver({.run_folder = folder.path(), .is_async = true}, -1, [](const std::string&) {});
    saver.try_to_save(checkpoint_of(7, weight));
  }
  EXPECT_EQ(saved_weight(folder.path()), std::vector<float>{4});
}

}  // namespace
}  // namespace reprise::train
