// The allocator of a CUDA device: what the CPU's does (tests/core/memory_test.cpp), and memory that follows
// streams.
#include <thread>

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

class CudaMemory : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    synchronize(device);
    memory().empty_cache();
  }
  Tensor bytes(int64_t count) { return Tensor::empty({count}, DType::u8, device); }
  static void* address(const Tensor& x) { return x.view().data; }
};

TEST_F(CudaMemory, CountsEveryByteApartFromTheCpu) {
  MemoryStats before = memory().stats(), cpu = allocator(Device::cpu()).stats();
  {
    MemoryScope scope(MemoryCategory::optimizer);
    Tensor x = bytes(1001);
    MemoryStats now = memory().stats();
    EXPECT_EQ(now.allocated, before.allocated + 1001);
    EXPECT_EQ(now.by_category[size_t(MemoryCategory::optimizer)],
              before.by_category[size_t(MemoryCategory::optimizer)] + 1001);
    EXPECT_EQ(now.live_blocks, before.live_blocks + 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address(x)) % 256, 0u);
  }
  EXPECT_EQ(memory().stats().allocated, before.allocated);
  EXPECT_EQ(allocator(Device::cpu()).stats().allocations, cpu.allocations);
}

TEST_F(CudaMemory, ReusesABlockAtOnceOnItsStream) {
  void* first = address(bytes(10'000));
  Tensor again = bytes(9'900);  // of the same size class
  EXPECT_EQ(address(again), first);
  EXPECT_NE(address(bytes(10'000)), first);
}

TEST_F(CudaMemory, KeepsABlockFromOtherStreams) {
  cuda::OwnedStream side(device);
  void* first = address(bytes(10'000));
  {
    cuda::StreamScope scope(side.get());
    Tensor other = bytes(10'000);
    EXPECT_NE(address(other), first);
  }
  EXPECT_EQ(address(bytes(10'000)), first);
  cuda::StreamScope scope(side.get());
  EXPECT_NE(address(bytes(10'000)), first);
}

TEST_F(CudaMemory, WaitsForStreamsThatWereRecorded) {
  cuda::OwnedStream side(device);
  Tensor x = Tensor::zeros({1 << 20}, DType::u8, device);
  void* first = address(x);
  synchronize(device);
  for (int i = 0; i < 50; ++i) cuda::set_bytes_async(first, 5, 1 << 20, side.get().handle());
  x.record_stream(side.get());
  x.record_stream(side.get());  // twice is as good as once
  x = {};
  // The next holder of the block comes after the side stream: zeros stay zeros.
  Tensor y = Tensor::zeros({1 << 20}, DType::u8, device);
  synchronize(current_stream(device));
  synchronize(side.get());
  EXPECT_EQ(y.alias(slice(y.view(), 0, 0, 4)).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0}));
  y = {};
  bytes(1);  // collects what has passed
  Tensor z = Tensor::empty({1 << 20}, DType::u8, device);
  Tensor w = Tensor::empty({1 << 20}, DType::u8, device);
  EXPECT_TRUE(address(z) == first || address(w) == first);
}

TEST_F(CudaMemory, RefusesBeyondTheLimitSayingWhatIsHeld) {
  MemoryScope scope(MemoryCategory::gradients);
  Tensor kept = bytes(100'000);
  struct Unlimited {
    Allocator& memory;
    ~Unlimited() { memory.set_limit(0); }
  } unlimited{memory()};
  memory().set_limit(memory().stats().reserved + 50'000);
  std::string text = message_of([&] { bytes(100'000); });
  for (const char* part :
       {"out of memory on cuda:0", "0.095 MiB of gradients", "the limit of", "gradients 0.095 MiB"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in: " << text;
  EXPECT_THROW(bytes(60'000), OutOfMemory);
  { bytes(40'000); }               // now cached
  EXPECT_NO_THROW(bytes(20'000));  // fits only without it
  EXPECT_LE(memory().stats().reserved, memory().limit());
}

TEST_F(CudaMemory, RefusesMoreThanTheDeviceHas) {
  std::string text = message_of([&] { bytes(int64_t(cuda::properties(0).memory_bytes) + 1); });
  EXPECT_NE(text.find("refused by the system"), std::string::npos) << text;
  EXPECT_NO_THROW(bytes(100));
}

TEST_F(CudaMemory, ReportsTheLimitOfWhatWaitsToo) {
  cuda::OwnedStream side(device);
  Tensor x = bytes(100'000);
  size_t reserved = memory().stats().reserved;
  x.record_stream(side.get());
  x = {};
  EXPECT_EQ(memory().stats().reserved, reserved);
  memory().empty_cache();  // waits for the side stream
  EXPECT_LT(memory().stats().reserved, reserved);
}

TEST_F(CudaMemory, LogsEvents) {
  memory().start_recording();
  { bytes(123); }
  std::vector<MemoryEvent> events = memory().stop_recording();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].bytes, 123);
  EXPECT_EQ(events[1].bytes, -123);
}

TEST_F(CudaMemory, StaysExactUnderThreads) {
  MemoryStats before = memory().stats();
  auto work = [&] {
    for (int64_t i = 1; i < 200; ++i) Tensor x = Tensor::zeros({i * 7 % 97 + 1}, DType::f32, device);
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(memory().stats().allocated, before.allocated);
  EXPECT_EQ(memory().stats().live_blocks, before.live_blocks);
  EXPECT_EQ(memory().stats().allocations, before.allocations + 398);
}

TEST_F(CudaMemory, BelongsToOneDevice) {
  Tensor cpu = Tensor::empty({1});
  EXPECT_NE(message_of([&] { cpu.storage()->record_stream(current_stream(device)); }), "");
}

}  // namespace
}  // namespace reprise
