// The threads ahead of a loader: every row once, errors by row, an end in the middle of work.
// labels: concurrency
#include "reprise/data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "reprise/core/parallel.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::error_of;

TEST(Prefetcher, FillsEachRowOnceInAnyOrderOfBatches) {
  for (int64_t workers : {0, 1, 3}) {
    std::vector<std::vector<int64_t>> slots(4, std::vector<int64_t>(10));
    std::atomic<int> calls{0};
    Prefetcher prefetcher(10, workers, 3, [&](const RowPlace& place) {
      slots[size_t(place.slot)][size_t(place.row)] = place.batch * 100 + place.row;
      ++calls;
    });
    ASSERT_LE(prefetcher.slots(), 4);
    for (int64_t batch : {0, 1, 2, 50, 51, 3, 3, 4}) {
      const std::vector<int64_t>& slot = slots[size_t(prefetcher.take(batch))];
      for (int64_t row = 0; row < 10; ++row) ASSERT_EQ(slot[size_t(row)], batch * 100 + row);
    }
    EXPECT_EQ(prefetcher.misses(), workers > 0 ? 2 : 0) << "50 and 3; without threads nothing is expected";
    if (workers == 0) { EXPECT_EQ(calls, 70) << "3 was there the second time"; }
  }
}

TEST(Prefetcher, ThrowsWhatTheFirstRowThrew) {
  for (int64_t workers : {0, 1, 4}) {
    Prefetcher prefetcher(20, workers, 2, [&](const RowPlace& place) {
      check(place.batch != 1 || place.row % 8 != 5, "row ", place.row);
    });
    EXPECT_NO_THROW(prefetcher.take(0));
    EXPECT_EQ(error_of([&] { prefetcher.take(1); }), "row 5");
    EXPECT_EQ(error_of([&] { prefetcher.take(1); }), "row 5");
    EXPECT_NO_THROW(prefetcher.take(2));
  }
}

// It ends without the batches ahead: each thread after the row it is at.
TEST(Prefetcher, EndsInTheMiddleOfItsWork) {
  std::atomic<int> calls{0};
  {
    Prefetcher prefetcher(1000, 2, 2, [&](const RowPlace& place) {
      ++calls;
      if (place.batch > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    prefetcher.take(0);
  }
  EXPECT_LT(calls, 2900);
  EXPECT_GE(calls, 1000);
}

// Rows run alone on their thread, though they start loops: the pool stays with whoever computes. Tasks are long enough for
// the pool's threads to wake up and take some.
TEST(Prefetcher, LeavesThePoolAlone) {
  const int before = num_threads();
  set_num_threads(3);
  std::atomic<int> elsewhere{0};
  auto start_a_loop = [&](const RowPlace&) {
    parallel_tasks(8, [&, self = std::this_thread::get_id()](int64_t) {
      elsewhere += self != std::this_thread::get_id();
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
  };
  Prefetcher prefetcher(8, 2, 2, start_a_loop);
  for (int64_t batch = 0; batch < 4; ++batch) prefetcher.take(batch);
  EXPECT_EQ(elsewhere, 0);
  set_num_threads(before);
}

}  // namespace
}  // namespace reprise::data
