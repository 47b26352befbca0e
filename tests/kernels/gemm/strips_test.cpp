// The strips that a product's tasks are: every row once, and ever thinner ones at the end of a thread's section.
#include "reprise/kernels/gemm/strips.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::kernels::gemm_detail {
namespace {

std::vector<int64_t> counts(const Strips& strips) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < strips.count(); ++i) counts.push_back(strips[i].count);
  return counts;
}

TEST(Strips, HaveEachRowOnceInOrder) {
  for (int64_t length : {1, 13, 14, 15, 99, 224, 225, 1000})
    for (int64_t threads : {1, 2, 3, 16, 100})
      for (int64_t thick : {1, 4, 8})
        for (int64_t thinnest = 1; thinnest <= thick; ++thinnest) {
          const Strips strips(length, 14, threads, thick, thinnest);
          int64_t next = 0;
          for (int64_t i = 0; i < strips.count(); ++i) {
            const auto [first, count] = strips[i];
            ASSERT_GE(count, 0);
            ASSERT_LE(count, thick * 14);
            if (count == 0) continue;
            ASSERT_EQ(first, next);
            ASSERT_EQ(first % 14, 0);
            next = first + count;
          }
          ASSERT_EQ(next, length) << threads << " threads, " << thinnest << " to " << thick << " panels";
        }
}

TEST(Strips, ThinOutTowardsTheEndOfEachThreadsSection) {
  const std::vector<int64_t> section{80, 80, 60, 30, 20, 10};  // 28 panels of ten
  std::vector<int64_t> both = section;
  both.insert(both.end(), section.begin(), section.end());
  EXPECT_EQ(counts(Strips(560, 10, 2, 8, 1)), both);
  EXPECT_EQ(counts(Strips(280, 10, 1, 8, 3)), (std::vector<int64_t>{80, 80, 60, 30, 30}));
}

TEST(Strips, OfASectionThatIsShorterAreCutAsTheLongest) {
  EXPECT_EQ(counts(Strips(65, 10, 2, 8, 1)), (std::vector<int64_t>{20, 10, 0, 20, 10, 5}));
}

TEST(Strips, AreEqualWithoutThreads) {
  EXPECT_EQ(counts(Strips(65, 10, 3)), (std::vector<int64_t>{30, 30, 5}));
}

}  // namespace
}  // namespace reprise::kernels::gemm_detail
