// Calls of ranks where memory lacks once, on any thread: the rank that it lacks on ends by that, and the others are told of it.
// labels: slow concurrency
#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "reprise/core/memory.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::distributed {
namespace {

constexpr int ranks = 2;

// How a rank ended.
struct End {
  bool lacks_memory = false;
  int told_of = -1;  ///< the rank that another one's error names
};

void call(ProcessGroup& group, const Tensor& x, const Tensor& all) {
  group.all_reduce(x, ReduceOp::sum, "a label that is too long to lie within a string").wait();
  group.all_gather(all, x).wait();
  group.gather_text("a text that is too long to lie within a string");
  group.barrier();
}

// As the programs do: what ends this rank is told to the others.
End end_of(ProcessGroup& group, const Tensor& x, const Tensor& all) {
  try {
    call(group, x, all);
  } catch (const DistributedError& error) {
    return {.told_of = error.rank()};
  } catch (const std::exception&) {
    group.abort("no memory");
    return {.lacks_memory = true};
  }
  return {};
}

std::vector<End> ends_without_allocation(int64_t k) {
  auto groups = make_thread_groups(ranks);
  std::vector<Tensor> parts, wholes;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.push_back(Tensor::zeros({50}));
    wholes.push_back(Tensor::zeros({50 * ranks}));
  }
  std::vector<End> ends(ranks);
  std::vector<std::thread> threads;
  std::atomic<bool> begins{false};
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      begins.wait(false);
      ends[rank] = end_of(*groups[rank], parts[rank], wholes[rank]);
    });
  testing::fail_allocation(k, testing::Failing::one);
  begins = true;
  begins.notify_all();
  for (std::thread& thread : threads) thread.join();
  testing::fail_no_allocation();
  return ends;
}

TEST(NoMemoryForCalls, EndsOneRankAndIsToldOnTheOther) {
  int64_t k = 0;
  for (; !HasFailure(); ++k) {
    const std::vector<End> ends = ends_without_allocation(k);
    if (testing::failed_allocations() == 0) break;
    for (int rank = 0; rank < ranks; ++rank) {
      const End &own = ends[size_t(rank)], &other = ends[size_t(1 - rank)];
      EXPECT_TRUE(own.lacks_memory != other.lacks_memory) << "allocation " << k;
      EXPECT_EQ(other.told_of, own.lacks_memory ? rank : -1) << "allocation " << k;
    }
  }
  EXPECT_GT(k, 50);
}

}  // namespace
}  // namespace reprise::distributed
