// Saves behind training where rank 0, which copies what is written, cannot: the others hear why, and nothing half is left.
// labels: slow, concurrency
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/broken_transport.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/saver.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::Ranks;
using testing::TempFolder;
using Clock = std::chrono::steady_clock;

constexpr double bound = 15;  // seconds, for what takes a few milliseconds and whose timeout is 60 s
const nn::GptOptions gpt{.vocab_size = 9, .context = 4, .layers = 2, .heads = 1, .width = 80};

// A rank at ZeRO's stage 3, whose hollow weights rank 0 asks for as it makes its copy.
struct Rank {
  explicit Rank(ProcessGroup& of) : group(of) {}
  Checkpoint checkpoint(int64_t step) const {
    return {.step = step,
            .parameters = model.named_parameters(),
            .optimizer = optimizer.own_state_dict(),
            .rank = group.rank(),
            .ranks = group.size(),
            .shared = &shared};
  }

  ProcessGroup& group;
  nn::Gpt model{gpt};
  distributed::DataParallel parallel{model, group};
  distributed::ShardedAdamW optimizer{parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = 3}};
  const distributed::SharedTensors shared{parallel};
};

std::set<std::string> checkpoints_in(const std::string& run_folder) {
  std::set<std::string> names;
  const std::string folder = run_folder + "/checkpoints";
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// What a rank tells of a save that fails on rank 0, which `spoils` it, and of one after it.
std::vector<std::string> save_twice(Rank& rank, const std::string& folder,
                                    const std::function<void(Checkpoint& checkpoint)>& spoil,
                                    const std::function<void()>& mend) {
  std::vector<std::string> told;
  Saver saver({.run_folder = folder, .is_async = true, .group = &rank.group}, -1,
              [&](const std::string& line) { told.push_back(line); });
  Checkpoint first = rank.checkpoint(1);
  if (rank.group.rank() == 0) spoil(first);
  const auto begin = Clock::now();
  saver.try_to_save(first);
  if (rank.group.rank() == 0) mend();
  if (std::chrono::duration<double>(Clock::now() - begin).count() > bound) told.push_back("late");
  if (saver.saved_step() != -1) told.push_back("a save that failed counts");
  rank.group.barrier();
  if (!checkpoints_in(folder).empty()) told.push_back("half of a checkpoint is left");
  rank.group.barrier();
  saver.try_to_save(rank.checkpoint(2));
  if (saver.saved_step() != 2) told.push_back("the next save failed");
  return told;
}

std::string in_one_line(const std::vector<std::string>& told) {
  std::string text;
  for (const std::string& line : told) text += line + " | ";
  return text;
}

void expect_well_saved(const std::string& folder) {
  EXPECT_EQ(checkpoints_in(folder), (std::set<std::string>{"LATEST", "step-00000002"}));
  EXPECT_EQ(load_checkpoint(folder, true).parameters.size(), nn::Gpt(gpt).named_parameters().size());
}

TEST(AsyncSavesOfRanks, AllHearWhyRank0CannotCopy) {
  TempFolder folder;
  const Tensor foreign = Tensor::hollow({nullptr, {2, 3}, {3, 1}, DType::f32, Device::cpu()});
  const auto told = testing::run_ranks(Ranks::threads, 3, [&](ProcessGroup& group) {
    Rank rank(group);
    return in_one_line(save_twice(
        rank, folder.path(), [&](Checkpoint& c) { c.parameters.emplace_back("foreign", foreign); }, [] {}));
  });
  for (const std::string& one : told)
    EXPECT_EQ(
        one,
        "step 1 is not saved, which is tried again: rank 0: SharedTensors: a hollow tensor f32(2, 3) is "
        "neither a weight nor an average that ranks share | step 2 is saved | ");
  expect_well_saved(folder.path());
}

TEST(AsyncSavesOfRanks, AllHearThatRank0HasNoMemoryForTheCopy) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  TempFolder folder;
  const auto told = testing::run_ranks(Ranks::gloo, 3, [&](ProcessGroup& group) {
    Rank rank(group);
    Allocator& memory = allocator(Device::cpu());
    // Enough for some tensors of the copy, and for what one of them is gathered in.
    const auto spoil = [&](Checkpoint&) {
      memory.empty_cache();
      memory.set_limit(memory.stats().held + 3 * 4 * 80 * 80 * sizeof(float));
    };
    return in_one_line(save_twice(rank, folder.path(), spoil, [&] { memory.set_limit(0); }));
  });
  for (const std::string& one : told) {
    EXPECT_TRUE(
        one.starts_with("step 1 is not saved, which is tried again: rank 0: saving: out of memory on "
                        "cpu: "))
        << one;
    EXPECT_TRUE(one.ends_with("; saving takes as much with any --recompute and --batch | step 2 is saved | "))
        << one;
  }
  expect_well_saved(folder.path());
}

// What becomes of the ranks where the call number k of rank 0's save meets what only it meets.
std::vector<std::string> ends_of(testing::Broken which, int k, const std::string& folder, bool& was_met) {
  std::atomic<int> left{-1};
  std::atomic<bool> met{false};
  const auto groups = testing::make_groups_with_broken(3, 0, which, 0, [&] {
    if (left.load() < 0 || left.fetch_sub(1) > 0) return;
    met = true;
    throw std::runtime_error("the link is gone");
  });
  std::vector<std::string> ends(groups.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < groups.size(); ++r)
    threads.emplace_back([&, r] {
      ProcessGroup& group = *groups[r];
      try {
        Rank rank(group);
        Saver saver({.run_folder = folder, .is_async = true, .group = &group}, -1, [](const std::string&) {});
        group.barrier();
        if (r == 0) left = k;
        saver.try_to_save(rank.checkpoint(1));
        saver.settle();
        if (r == 0) left = -1;
        group.barrier();
        ends[r] = saver.saved_step() == 1 ? "saved" : "not saved";
      } catch (const distributed::DistributedError& error) {
        ends[r] = error.failure().message;
      } catch (const std::exception& error) {
        ends[r] = error.what();
        group.abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  was_met = met;
  return ends;
}

TEST(AsyncSavesOfRanks, WhatEndsRank0AsItAsksForTensorsEndsAll) {
  for (testing::Broken which : {testing::Broken::post, testing::Broken::take, testing::Broken::exchange}) {
    int k = 0;
    for (bool was_met = true; was_met && !HasFailure(); ++k) {
      TempFolder folder;
      const auto begin = Clock::now();
      const std::vector<std::string> ends = ends_of(which, k, folder.path(), was_met);
      EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), bound);
      const std::set<std::string> left = checkpoints_in(folder.path());
      if (left.contains("LATEST")) load_checkpoint(folder.path(), true);
      if (!was_met) {
        EXPECT_EQ(ends, std::vector<std::string>(3, "saved"));
        continue;
      }
      EXPECT_EQ(ends[0], "the link is gone") << "call " << k;
      for (size_t r : {1, 2}) {
        EXPECT_TRUE(ends[r].starts_with("rank 0 failed in ")) << "call " << k << ": " << ends[r];
        EXPECT_TRUE(ends[r].ends_with(": the link is gone")) << "call " << k << ": " << ends[r];
      }
      for (const std::string& name : left)
        EXPECT_TRUE(name == "LATEST" || name == "step-00000001") << "call " << k << ": " << name;
      EXPECT_EQ(left.size(), left.contains("LATEST") ? 2u : 0u) << "call " << k;
    }
    EXPECT_GT(k, 20);
  }
}

}  // namespace
}  // namespace reprise::train
