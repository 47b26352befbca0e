// A timeline adds up to what the allocator says.
#include "reprise/nn/memory/memory_timeline.h"

#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"

namespace reprise::nn {
namespace {

size_t index(MemoryCategory category) { return size_t(category); }

TEST(MemoryTimeline, EndsWhereTheAllocatorsCountDoes) {
  Tensor held = Tensor::zeros({100});
  MemoryRecorder recorder(Device::cpu());
  Tensor kept = Tensor::zeros({33});
  {
    MemoryScope scope(MemoryCategory::recompute);
    Tensor gone = Tensor::zeros({1000});
    kept = Tensor::zeros({77});
  }
  kept.storage()->set_category(MemoryCategory::gradients);
  held = Tensor();
  MemoryTimeline timeline = recorder.finish();
  MemoryStats stats = allocator(Device::cpu()).stats();
  EXPECT_EQ(timeline.end().by_category, stats.by_category);
  EXPECT_EQ(timeline.end().total(), stats.allocated);
  for (size_t i = 1; i < timeline.points().size(); ++i)
    EXPECT_GE(timeline.points()[i].seconds, timeline.points()[i - 1].seconds);
}

TEST(MemoryTimeline, PeakOfActivationsAndRecomputeIsThatOfTheirSum) {
  std::array<size_t, memory_category_count> at_first{};
  at_first[index(MemoryCategory::parameters)] = 1000;
  at_first[index(MemoryCategory::activations)] = 10;
  MemoryTimeline timeline(at_first, {{0.1, 50, MemoryCategory::activations},
                                     {0.2, -50, MemoryCategory::activations},
                                     {0.3, 45, MemoryCategory::recompute},
                                     {0.4, 7, MemoryCategory::activations},
                                     {0.5, 500, MemoryCategory::gradients},
                                     {0.6, -45, MemoryCategory::recompute}});
  EXPECT_EQ(timeline.points().size(), 7u);
  EXPECT_EQ(timeline.peak_activations(), 62u) << "60 of activations alone, 45 + 17 together";
  EXPECT_EQ(timeline.peak(), 1562u);
  EXPECT_EQ(timeline.end().total(), 1517u);
  EXPECT_EQ(timeline.end().seconds, 0.6);
}

TEST(MemoryTimeline, ARecorderThatIsGoneRecordsNoMore) {
  { MemoryRecorder recorder(Device::cpu()); }
  Tensor x = Tensor::zeros({100});
  EXPECT_TRUE(allocator(Device::cpu()).stop_recording().empty());
}

}  // namespace
}  // namespace reprise::nn
