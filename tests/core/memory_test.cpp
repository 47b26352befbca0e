// The allocator: accounting, reuse, the hard limit, the event log, and what is left after running out.
#include "reprise/core/memory.h"

#include <gtest/gtest.h>

#include <thread>

#include "reprise/core/bytes.h"
#include "reprise/core/tensor.h"
#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;

Allocator& cpu() { return allocator(Device::cpu()); }
size_t held(MemoryCategory category) { return cpu().stats().by_category[size_t(category)]; }

// Restores an unlimited allocator, whatever a test did.
struct Limit {
  explicit Limit(size_t bytes) { cpu().set_limit(bytes); }
  ~Limit() { cpu().set_limit(0); }
};

TEST(Memory, CountsEveryByteThatTensorsHold) {
  MemoryStats before = cpu().stats();
  {
    Tensor a = Tensor::empty({100}), b = Tensor::empty({3}, DType::u8);
    MemoryStats now = cpu().stats();
    EXPECT_EQ(now.allocated, before.allocated + 403);
    EXPECT_EQ(now.live_blocks, before.live_blocks + 2);
    EXPECT_EQ(now.allocations, before.allocations + 2);
    EXPECT_GE(now.reserved, now.allocated);
  }
  EXPECT_EQ(cpu().stats().allocated, before.allocated);
  EXPECT_EQ(cpu().stats().live_blocks, before.live_blocks);
}

TEST(Memory, EmptyTensorsHoldNothing) {
  MemoryStats before = cpu().stats();
  Tensor x = Tensor::empty({0, 5});
  EXPECT_EQ(x.view().data, nullptr);
  EXPECT_EQ(cpu().stats().live_blocks, before.live_blocks);
}

TEST(Memory, AccountsToTheScopesCategoryAndMoves) {
  size_t parameters = held(MemoryCategory::parameters), optimizer = held(MemoryCategory::optimizer),
         activations = held(MemoryCategory::activations);
  Tensor x, y;
  {
    MemoryScope outer(MemoryCategory::optimizer);
    {
      MemoryScope inner(MemoryCategory::parameters);
      x = Tensor::empty({10});
    }
    y = Tensor::empty({20});
  }
  EXPECT_EQ(current_memory_category(), MemoryCategory::activations);
  EXPECT_EQ(held(MemoryCategory::parameters), parameters + 40);
  EXPECT_EQ(held(MemoryCategory::optimizer), optimizer + 80);
  x.storage()->set_category(MemoryCategory::optimizer);
  EXPECT_EQ(held(MemoryCategory::parameters), parameters);
  EXPECT_EQ(held(MemoryCategory::optimizer), optimizer + 120);
  x = y = {};
  EXPECT_EQ(held(MemoryCategory::optimizer), optimizer);
  EXPECT_EQ(held(MemoryCategory::activations), activations);
}

TEST(Memory, ScopesAreOfTheirThreadAlone) {
  MemoryScope scope(MemoryCategory::data);
  MemoryCategory other = MemoryCategory::data;
  std::thread([&] { other = current_memory_category(); }).join();
  EXPECT_EQ(other, MemoryCategory::activations);
}

TEST(Memory, HandsFreedBlocksOutAgain) {
  { Tensor x = Tensor::empty({1000}); }
  uint64_t from_system = cpu().stats().system_allocations;
  for (int i = 0; i < 10; ++i) Tensor::empty({1000});
  EXPECT_EQ(cpu().stats().system_allocations, from_system);
  size_t reserved = cpu().stats().reserved;
  cpu().empty_cache();
  EXPECT_LT(cpu().stats().reserved, reserved);
  EXPECT_GE(cpu().stats().reserved, cpu().stats().allocated);
}

TEST(Memory, RemembersPeaksUntilTheyAreReset) {
  cpu().reset_peaks();
  size_t base = cpu().stats().allocated, base_data = held(MemoryCategory::data);
  {
    MemoryScope scope(MemoryCategory::data);
    Tensor a = Tensor::empty({250}), b = Tensor::empty({250});
  }
  Tensor c = Tensor::empty({10});
  EXPECT_EQ(cpu().stats().peak_allocated, base + 2000);
  EXPECT_EQ(cpu().stats().peak_by_category[size_t(MemoryCategory::data)], base_data + 2000);
  cpu().reset_peaks();
  EXPECT_EQ(cpu().stats().peak_allocated, base + 40);
  EXPECT_EQ(cpu().stats().peak_reserved, cpu().stats().reserved);
}

TEST(Memory, CountsTheBlocksThatTensorsHoldToTheByteThatALimitNeeds) {
  cpu().empty_cache();
  cpu().reset_peaks();
  size_t before = cpu().stats().held, peak = 0;
  auto work = [] { Tensor a = Tensor::empty({1000003}), b = Tensor::empty({333}); };
  work();
  peak = cpu().stats().peak_held;
  EXPECT_EQ(cpu().stats().held, before);
  EXPECT_GT(peak - before, 4u * (1000003 + 333));
  {
    Limit limit(peak);
    EXPECT_NO_THROW(work());
  }
  Limit limit(peak - 1);
  EXPECT_THROW(work(), OutOfMemory);
}

TEST(Memory, RefusesBeyondTheLimitSayingWhatIsHeldByWhom) {
  cpu().empty_cache();
  MemoryScope scope(MemoryCategory::optimizer);
  Tensor kept = Tensor::empty({1000});
  Limit limit(cpu().stats().reserved + 5000);
  try {
    Tensor::empty({2000});
    FAIL() << "nothing thrown";
  } catch (const OutOfMemory& error) {
    std::string text = error.what();
    for (const std::string& part : std::vector<std::string>{
             "out of memory on cpu", "0.0076 MiB of optimizer", "the limit of " + format_bytes(cpu().limit()),
             "held: " + format_bytes(cpu().stats().held), "optimizer 0.0038 MiB"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " not in: " << text;
  }
  EXPECT_NO_THROW(Tensor::empty({1000}));
}

TEST(Memory, GivesCachedBlocksUpBeforeItRefuses) {
  cpu().empty_cache();
  Limit limit(cpu().stats().reserved + 10'000);
  { Tensor x = Tensor::empty({2000}); }    // 8000 bytes, now cached
  EXPECT_NO_THROW(Tensor::empty({2300}));  // 9200 bytes fit only without them
  EXPECT_LE(cpu().stats().reserved, cpu().limit());
}

TEST(Memory, IsUsableAfterRunningOut) {
  MemoryStats before = cpu().stats();
  {
    cpu().empty_cache();
    Limit limit(cpu().stats().reserved + 1000);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(Tensor::empty({100'000}), OutOfMemory);
    EXPECT_EQ(cpu().stats().live_blocks, before.live_blocks);
    EXPECT_EQ(cpu().stats().allocated, before.allocated);
  }
  EXPECT_NO_THROW(Tensor::empty({100'000}));
}

TEST(Memory, LogsAllocationsAndReleasesInOrder) {
  Tensor outside = Tensor::empty({5});
  cpu().start_recording();
  {
    MemoryScope scope(MemoryCategory::data);
    Tensor x = Tensor::empty({100});
    outside = {};
  }
  std::vector<MemoryEvent> events = cpu().stop_recording();
  Tensor after = Tensor::empty({7});
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].bytes, 400);
  EXPECT_EQ(events[0].category, MemoryCategory::data);
  EXPECT_EQ(events[1].bytes, -20);
  EXPECT_EQ(events[1].category, MemoryCategory::activations);
  EXPECT_EQ(events[2].bytes, -400);
  EXPECT_LE(events[0].seconds, events[2].seconds);
  EXPECT_TRUE(cpu().stop_recording().empty());
}

TEST(Memory, StaysExactUnderThreads) {
  MemoryStats before = cpu().stats();
  auto work = [] {
    for (int64_t i = 1; i < 500; ++i) Tensor x = Tensor::empty({i * 7 % 97 + 1});
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(cpu().stats().allocated, before.allocated);
  EXPECT_EQ(cpu().stats().live_blocks, before.live_blocks);
  EXPECT_EQ(cpu().stats().allocations, before.allocations + 998);
}

TEST(Memory, HasNoAllocatorForADeviceThatIsNotThere) {
  Device missing = Device::cuda(Device::cuda_count());
  expect_error([&] { allocator(missing); }, "asked for, but");
  expect_error([&] { Tensor::empty({1}, DType::f32, missing); }, "asked for, but");
}

TEST(Memory, NamesItsCategories) {
  EXPECT_EQ(name_of(MemoryCategory::parameters), "parameters");
  EXPECT_EQ(name_of(MemoryCategory::data), "data");
}

}  // namespace
}  // namespace reprise
