// The pool of pinned buffers: what is given back is taken again.
#include "reprise/core/cuda/pinned_pool.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(PinnedPool, TakesWhatWasGivenBackBeforeItPinsMore) {
  cuda::PinnedPool pool;
  cuda::PinnedBuffer a = pool.take(10000), b = pool.take(10000);
  void *first = a.data(), *second = b.data();
  EXPECT_NE(first, second);
  size_t pinned = pool.bytes();
  EXPECT_GE(a.bytes(), 10000u);
  pool.give_back(std::move(a));
  EXPECT_EQ(pool.take(9000).data(), first);
  EXPECT_EQ(pool.bytes(), pinned);
}

TEST(PinnedPool, DoesNotSpendALargeBufferOnASmallRequest) {
  cuda::PinnedPool pool;
  pool.give_back(pool.take(100000));
  EXPECT_LT(pool.take(20000).bytes(), 40000u);
}

}  // namespace
}  // namespace reprise
