// A save of ranks where memory lacks once, on any of them: it has failed for all, or the rank that it lacks on ends by that.
// labels: slow, concurrency
#include "reprise/train/saver.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "reprise/core/memory.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::train {
namespace {

constexpr int ranks = 2;

// As the programs do: what ends this rank is told to the other, which says so. Empty: it goes on.
std::string end_of(distributed::ProcessGroup& group, const std::string& folder,
                   const Checkpoint& checkpoint) {
  try {
    Saver saver({.run_folder = folder, .group = &group}, -1, [](const std::string&) {});
    saver.try_to_save(checkpoint);
    group.barrier();
  } catch (const distributed::DistributedError& error) {
    return std::string(name_of(error.kind()));
  } catch (const std::exception&) {
    group.abort("no memory");
    return "no memory";
  }
  return "";
}

std::vector<std::string> ends_without_allocation(int64_t k) {
  testing::TempFolder folder;
  auto groups = distributed::make_thread_groups(ranks, {.timeout = std::chrono::seconds(20)});
  std::vector<Checkpoint> checkpoints;
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensor x = Tensor::from<float>({1, 2, 3}, {3});
    checkpoints.push_back({.step = 1,
                           .parameters = {{"weight", x}},
                           .optimizer = {{"moment", x}},
                           .rank = rank,
                           .ranks = ranks});
  }
  std::vector<std::string> ends(ranks);
  std::vector<std::thread> threads;
  std::atomic<bool> begins{false};
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      begins.wait(false);
      ends[rank] = end_of(*groups[rank], folder.path(), checkpoints[rank]);
    });
  testing::fail_allocation(k, testing::Failing::one);
  begins = true;
  begins.notify_all();
  for (std::thread& thread : threads) thread.join();
  testing::fail_no_allocation();
  return ends;
}

TEST(NoMemoryForASaveOfRanks, HasFailedForAllOrEndsItsRank) {
  using Ends = std::vector<std::string>;
  int64_t k = 0, ended = 0;
  for (; !HasFailure(); ++k) {
    const Ends ends = ends_without_allocation(k);
    if (testing::failed_allocations() == 0) break;
    if (ends == Ends(ranks)) continue;  // the save has failed on all, or nothing has
    ++ended;
    EXPECT_TRUE((ends == Ends{"no memory", "left"}) || (ends == Ends{"left", "no memory"}))
        << "allocation " << k << ": " << ends[0] << ", " << ends[1];
  }
  EXPECT_GT(ended, 20);
  EXPECT_GT(k, ended + 100);
}

}  // namespace
}  // namespace reprise::train
