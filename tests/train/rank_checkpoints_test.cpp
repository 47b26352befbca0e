// Checkpoints of ranks: whole and byte-equal to one process's at any count and stage of ZeRO, so that a run goes on anywhere;
// a save that fails leaves the one before.
// labels: concurrency
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/tests/train/rank_runs.h"
#include "reprise/train/optimizer_files.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::expect_same_files;
using testing::expect_well;
using testing::folder_of;
using testing::run;
using testing::steps;
using testing::TempFolder;

TEST(ResumeElsewhere, OnOtherRanksAndStagesToTheByte) {
  for (const bool sgd : {false, true}) {
    TempFolder one, many;
    expect_well({.is_sgd = sgd}, one.path());
    expect_well({.ranks = 1, .stage = 0, .stop_after = 2, .is_sgd = sgd}, many.path());
    expect_well({.ranks = 2, .stage = 2, .stop_after = 2, .is_sgd = sgd}, many.path());
    expect_well({.ranks = 4, .stage = 1, .stop_after = 1, .is_sgd = sgd}, many.path());
    expect_well({.ranks = 2, .stage = 3, .stop_after = 2, .is_sgd = sgd}, many.path());
    expect_well({.ranks = 1, .stage = 0, .is_sgd = sgd}, many.path());
    for (int64_t step = 2; step <= steps; step += 2) expect_same_files(many.path(), one.path(), step);
  }
}

// Each rank writes its part, and no part is twice as large as another.
TEST(ShardedCheckpoint, IsAFileOfEachRank) {
  TempFolder folder;
  expect_well({.ranks = 4, .stage = 1, .stop_after = 2}, folder.path());
  EXPECT_FALSE(io::exists(folder_of(folder.path(), 2) + "/optimizer.safetensors"));
  std::vector<size_t> bytes;
  for (const char* number : {"1", "2", "3", "4"})
    bytes.push_back(
        io::read_file(folder_of(folder.path(), 2) + "/optimizer-0000" + number + "-of-00004.safetensors")
            .size());
  const auto [least, most] = std::ranges::minmax(bytes);
  EXPECT_LT(most, 2 * least);
  const std::map<std::string, std::string> origin{{"ranks", "4"},
                                                  {"zero", "1"},
                                                  {"micro_batches", std::to_string(testing::micro_batches)},
                                                  {"reduce", "tree"}};
  EXPECT_EQ(optimizer_origin(folder_of(folder.path(), 2)), origin);
  expect_well({.ranks = 2, .stage = 3, .stop_after = 2}, folder.path());
  EXPECT_EQ(optimizer_origin(folder_of(folder.path(), 4)).at("zero"), "3");
  EXPECT_FALSE(io::exists(folder.path() + "/.seen-by-ranks"));
}

// A thread of each rank writes while training goes on.
TEST(ShardedCheckpoint, IsWrittenBehindToo) {
  TempFolder one;
  expect_well({}, one.path());
  for (const int stage : {2, 3}) {
    TempFolder two;
    expect_well({.ranks = 2, .stage = stage, .save_every = 1, .save_async = true}, two.path());
    for (int64_t step = 2; step <= steps; step += 2) expect_same_files(two.path(), one.path(), step);
  }
}

// A rank whose machine has another disk at that place, or one that it may not write.
class BlindCalls : public io::FileCalls {
 public:
  explicit BlindCalls(const char* hidden) : hidden_(hidden) {}
  int open(const char* path, int flags, mode_t mode) override {
    if (std::string(path).find(hidden_) == std::string::npos) return FileCalls::open(path, flags, mode);
    errno = EACCES;
    return -1;
  }

 private:
  const char* hidden_;
};

TEST(ShardedCheckpoint, OfARankThatCannotUseTheFolderIsWhole) {
  TempFolder one;
  expect_well({.stop_after = 2}, one.path());
  for (const auto& [hidden, stage] : {std::pair(".seen-by-ranks", 2), std::pair(".seen-by-ranks-1", 3)}) {
    BlindCalls calls(hidden);
    TempFolder two;
    expect_well({.ranks = 2, .stage = stage, .stop_after = 2, .calls = &calls, .rank_of_calls = 1},
                two.path());
    EXPECT_TRUE(io::exists(folder_of(two.path(), 2) + "/optimizer.safetensors")) << hidden;
    expect_same_files(two.path(), one.path(), 2);
  }
}

// Fails so many renames from some one on: a checkpoint is put in place by one, and LATEST by another.
class FailingRenames : public io::FileCalls {
 public:
  FailingRenames(int first, int count) : first_(first), count_(count) {}
  int seen() const { return seen_; }
  int rename(const char* from, const char* to) override {
    const bool is_ours = std::string(to).find("/checkpoints/") != std::string::npos;
    if (!is_ours || ++seen_ < first_ || seen_ >= first_ + count_) return FileCalls::rename(from, to);
    errno = ENOSPC;
    return -1;
  }

 private:
  int first_, count_, seen_ = 0;
};

TEST(SaveVote, ASaveThatFailsIsTriedAgainAndTheOthersGoOn) {
  TempFolder one, two;
  expect_well({}, one.path());
  for (const int stage : {2, 3})
    for (const int first :
         {1, 2, 4, 7}) {  // at stage 3 after the first one ranks would still have averages to send
      FailingRenames calls(first, 1);
      TempFolder folder;
      expect_well({.ranks = 2, .stage = stage, .calls = &calls}, folder.path());
      EXPECT_EQ(load_checkpoint(folder.path(), true).step, steps);
      expect_same_files(folder.path(), one.path(), steps);
    }
}

// Renames of another rank: of its file, once per save.
TEST(SaveVote, AnotherRanksFailureIsASaveThatFails) {
  TempFolder one, two;
  expect_well({}, one.path());
  FailingRenames calls(2, 1);
  expect_well({.ranks = 2, .stage = 2, .calls = &calls, .rank_of_calls = 1}, two.path());
  EXPECT_EQ(calls.seen(), 5) << "the second is tried again after the step that follows";
  expect_same_files(two.path(), one.path(), steps);
  EXPECT_FALSE(io::exists(folder_of(two.path(), 4)));
  EXPECT_TRUE(io::exists(folder_of(two.path(), 5)));
}

TEST(SaveVote, OfAnotherRanksFullDiskTheOldCheckpointLoads) {
  TempFolder one, full;
  expect_well({}, one.path());
  FailingRenames calls(3, 1000);
  const std::vector<std::string> errors =
      run({.ranks = 2, .stage = 1, .calls = &calls, .rank_of_calls = 1}, full.path());
  EXPECT_EQ(errors[1].find("train: step 8 is not saved, after 5 tries: rank 1: rename: "), 0u) << errors[1];
  EXPECT_EQ(errors[0].find("told: "), 0u) << errors[0];
  EXPECT_NE(errors[0].find("step 8 is not saved, after 5 tries: rank 1: rename: "), std::string::npos)
      << errors[0];
  EXPECT_EQ(load_checkpoint(full.path(), true).step, 4);
  expect_same_files(full.path(), one.path(), 4);
}

TEST(SaveVote, OfADiskThatStaysFullTheOldCheckpointLoads) {
  TempFolder one, full;
  expect_well({}, one.path());
  // Renames of a save: its files, its manifest, its folder and LATEST.
  expect_well({.ranks = 2, .stage = 1, .stop_after = 4}, full.path());
  FailingRenames calls(1, 1000);
  const std::vector<std::string> errors = run({.ranks = 2, .stage = 1, .calls = &calls}, full.path());
  EXPECT_NE(errors[0].find("step 8 is not saved, after 5 tries"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("told: "), std::string::npos) << errors[1];
  EXPECT_EQ(load_checkpoint(full.path(), true).step, 4);
  expect_same_files(full.path(), one.path(), 4);
  expect_well({.ranks = 4, .stage = 2}, full.path());
  expect_same_files(full.path(), one.path(), steps);
}

// Rank 1 ends before it has sent its part of the state: rank 0 writes nothing.
TEST(SaveVote, OfARankThatFailsTheOldCheckpointLoads) {
  TempFolder one, less;
  expect_well({}, one.path());
  const auto fails = [](ProcessGroup& group, Task& task) {
    if (group.rank() == 1)
      task.updated = [updates = 0]() mutable { check(++updates < 4, "rank 1 ends here"); };
  };
  const std::vector<std::string> errors = run({.ranks = 2, .stage = 2, .change = fails}, less.path());
  EXPECT_EQ(errors[1], "rank 1 ends here");
  EXPECT_NE(errors[0].find("told: "), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("rank 1 ends here"), std::string::npos) << errors[0];
  EXPECT_EQ(load_checkpoint(less.path(), true).step, 2);
  EXPECT_FALSE(io::exists(folder_of(less.path(), 4)));
  expect_well({.ranks = 1}, less.path());
  expect_same_files(less.path(), one.path(), steps);
}

// A rank that sees another folder, or none.
TEST(ResumeElsewhere, OfAnotherStepIsAnErrorOnAllRanks) {
  TempFolder folder;
  expect_well({.stop_after = 2}, folder.path());
  auto groups = distributed::make_thread_groups(2);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        testing::train_rank(*groups[rank], {}, rank == 0 ? folder.path() : folder.path() + "/none");
      } catch (const Error& error) { errors[rank] = error.what(); }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 0 goes on after step 2, rank 1 after step 0"), std::string::npos) << error;
}

}  // namespace
}  // namespace reprise::train
