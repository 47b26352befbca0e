// A save of ranks where memory lacks once, on any of them: it has failed for all, or the rank that it lacks on ends by that.
// labels: slow, concurrency
// slow in tsan: a whole save without each of its allocations, for many minutes
#include "reprise/train/saver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <new>
#include <thread>

#include "reprise/core/memory.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::train {
namespace {

constexpr int ranks = 2;

enum class Way { at_once, behind };  // behind training, from a copy

// As the programs do: what ends this rank is told to the other, which says so. Empty: it goes on.
std::string end_of(distributed::ProcessGroup& group, const std::string& folder, Way way,
                   const Checkpoint& checkpoint) {
  try {
    Saver saver({.run_folder = folder, .is_async = way == Way::behind, .group = &group}, -1,
                [](const std::string&) {});
    saver.try_to_save(checkpoint);
    saver.settle();
    group.barrier();
  } catch (const distributed::DistributedError& error) {
    return std::string(name_of(error.kind()));
  } catch (const std::exception&) {
    group.abort("no memory");
    return "no memory";
  }
  return "";
}

// Saves what a rank makes on its own thread, and gives what `save` says of it.
using Save = std::function<std::string(const Checkpoint& checkpoint)>;
using SaveOf = std::function<std::string(distributed::ProcessGroup& group, const Save& save)>;

std::string save_of_whole_tensors(distributed::ProcessGroup& group, const Save& save) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  return save({.step = 1,
               .parameters = {{"weight", x}},
               .optimizer = {{"moment", x}},
               .rank = group.rank(),
               .ranks = ranks});
}

// At ZeRO's stage 3 rank 0 asks the other for its elements.
std::string save_of_shared_tensors(distributed::ProcessGroup& group, const Save& save) {
  nn::Gpt model({.vocab_size = 5, .context = 4, .layers = 1, .heads = 1, .width = 80});
  distributed::DataParallel parallel(model, group);
  distributed::ShardedAdamW optimizer(parallel, {{.parameters = parallel.leaves()}}, {.stage = 3});
  const distributed::SharedTensors shared(parallel);
  if (shared.own().empty()) return "nothing is shared";
  return save({.step = 1,
               .parameters = model.named_parameters(),
               .rank = group.rank(),
               .ranks = ranks,
               .shared = &shared});
}

// Where threads meet.
class Count {
 public:
  void add() {
    ++count_;
    count_.notify_all();
  }
  void wait_for(int count) const {
    for (int seen = count_; seen < count; seen = count_) count_.wait(seen);
  }

 private:
  std::atomic<int> count_{0};
};

// Whether what is there of checkpoints is none, or a whole one.
bool is_whole(const std::string& folder) {
  if (!has_checkpoint(folder)) return !std::filesystem::exists(folder + "/checkpoints/LATEST");
  load_checkpoint(folder, true);
  return true;
}

std::vector<std::string> ends_without_allocation(int64_t k, Way way, const SaveOf& save) {
  testing::TempFolder folder;
  auto groups = distributed::make_thread_groups(ranks, {.timeout = std::chrono::seconds(20)});
  std::vector<std::string> ends(ranks);
  std::vector<std::thread> threads;
  Count ready, begins, done, goes_on;
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ends[rank] = save(*groups[rank], [&](const Checkpoint& checkpoint) {
        ready.add();
        begins.wait_for(1);
        const std::string end = end_of(*groups[rank], folder.path(), way, checkpoint);
        done.add();
        goes_on.wait_for(1);
        return end;
      });
    });
  ready.wait_for(ranks);
  testing::fail_allocation(k, testing::Failing::one);
  begins.add();
  done.wait_for(ranks);
  testing::fail_no_allocation();
  goes_on.add();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(is_whole(folder.path())) << "allocation " << k;
  return ends;
}

void expect_failed_for_all_or_ends_its_rank(Way way, const SaveOf& save) {
  using Ends = std::vector<std::string>;
  int64_t k = 0, ended = 0;
  for (; !::testing::Test::HasFailure(); ++k) {
    const Ends ends = ends_without_allocation(k, way, save);
    if (testing::failed_allocations() == 0) break;
    if (ends == Ends(ranks)) continue;  // the save has failed on all, or nothing has
    ++ended;
    EXPECT_TRUE((ends == Ends{"no memory", "left"}) || (ends == Ends{"left", "no memory"}))
        << "allocation " << k << ": " << ends[0] << ", " << ends[1];
  }
  EXPECT_GT(ended, 20);
  EXPECT_GT(k, ended + 100);
}

TEST(NoMemoryForASaveOfRanks, HasFailedForAllOrEndsItsRank) {
  expect_failed_for_all_or_ends_its_rank(Way::at_once, save_of_whole_tensors);
}

TEST(NoMemoryForASaveOfRanks, OfWhatTheyShareToo) {
  expect_failed_for_all_or_ends_its_rank(Way::at_once, save_of_shared_tensors);
}

TEST(NoMemoryForASaveOfRanks, BehindTrainingHasFailedForAllOrEndsItsRank) {
  expect_failed_for_all_or_ends_its_rank(Way::behind, save_of_whole_tensors);
}

TEST(NoMemoryForASaveOfRanks, BehindTrainingOfWhatTheyShareToo) {
  expect_failed_for_all_or_ends_its_rank(Way::behind, save_of_shared_tensors);
}

}  // namespace
}  // namespace reprise::train
