// The emulator's deferred streams: work runs as late as a GPU may run it, so a missing wait shows.
#include <atomic>
#include <thread>

#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/pinned.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

using cuda::emulated::Streams;

// Both kinds of streams, whatever the process started with.
class EmulatedStreams : public CudaTest {
 protected:
  void SetUp() override { cuda::emulated::set_streams(Streams::deferred); }
  void TearDown() override { cuda::emulated::set_streams(before_); }

  void enqueue(const cuda::OwnedStream& stream, int number) {
    cuda::emulated::enqueue(stream.get().handle(), [this, number] { ran.push_back(number); });
  }
  std::vector<int> ran;
  cuda::OwnedStream a{device}, b{device};

 private:
  Streams before_ = cuda::emulated::streams();
};

TEST_F(EmulatedStreams, RunWorkAtOnceUnlessTheyAreDeferred) {
  cuda::emulated::set_streams(Streams::eager);
  enqueue(a, 1);
  EXPECT_EQ(ran, (std::vector<int>{1}));
  cuda::emulated::set_streams(Streams::deferred);
  enqueue(a, 2);
  EXPECT_EQ(ran, (std::vector<int>{1}));
  EXPECT_EQ(cuda::emulated::pending(a.get().handle()), 1u);
  cuda::emulated::set_streams(Streams::deferred);  // runs what waits
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST_F(EmulatedStreams, RunOnlyWhatIsWaitedFor) {
  enqueue(a, 1);
  enqueue(b, 2);
  enqueue(a, 3);
  synchronize(a.get());
  EXPECT_EQ(ran, (std::vector<int>{1, 3}));
  synchronize(device);
  EXPECT_EQ(ran, (std::vector<int>{1, 3, 2}));
}

TEST_F(EmulatedStreams, RunWhatAWaitNeedsAndNoMore) {
  cuda::Event event(device);
  enqueue(a, 1);
  event.record(a.get());
  enqueue(a, 2);
  event.make_wait(b.get());
  enqueue(b, 3);
  EXPECT_FALSE(event.is_done() && ran.empty());
  synchronize(b.get());
  EXPECT_EQ(ran, (std::vector<int>{1, 3}));
  event.synchronize();
  EXPECT_EQ(ran, (std::vector<int>{1, 3}));
  synchronize(a.get());
  EXPECT_EQ(ran, (std::vector<int>{1, 3, 2}));
}

TEST_F(EmulatedStreams, WaitForTheRecordThatWasLastWhenTheWaitWasMade) {
  cuda::Event event(device);
  enqueue(a, 1);
  event.record(a.get());
  event.make_wait(b.get());
  enqueue(b, 2);
  enqueue(a, 3);
  event.record(a.get());
  synchronize(b.get());
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  event.synchronize();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_F(EmulatedStreams, WorkThatWaitsForAnotherThreadLetsItGoOn) {
  for (Streams mode : {Streams::eager, Streams::deferred}) {
    cuda::emulated::set_streams(mode);
    ran.clear();
    std::atomic<bool> is_ready{false};
    cuda::Event event(device);
    cuda::emulated::enqueue_when(
        a.get().handle(), [&] { return is_ready.load(); }, [this] { ran.push_back(1); });
    enqueue(a, 2);
    event.record(a.get());
    event.make_wait(b.get());
    enqueue(b, 3);
    EXPECT_FALSE(event.is_done());
    EXPECT_EQ(ran, std::vector<int>{});
    cuda::OwnedStream c(device);
    std::thread other([&] {
      enqueue(c, 4);
      synchronize(c.get());
      is_ready = true;
    });
    synchronize(b.get());  // the other thread needs the emulator meanwhile
    other.join();
    EXPECT_EQ(ran, (std::vector<int>{4, 1, 2, 3}));
    EXPECT_TRUE(event.is_done());
  }
}

TEST_F(EmulatedStreams, ShowAMissingWait) {
  cuda::PinnedBuffer seen(1);
  Tensor x = Tensor::zeros({1}, DType::u8, device);
  synchronize(device);
  cuda::set_bytes_async(x.view().data, 7, 1, a.get().handle());
  cuda::copy_async(seen.data(), x.view().data, 1, b.get().handle());
  synchronize(b.get());
  EXPECT_EQ(seen.as<char>()[0], 0);  // b did not wait for a
  seen.as<char>()[0] = 1;
  cuda::copy_async(seen.data(), x.view().data, 1, a.get().handle());
  EXPECT_EQ(seen.as<char>()[0], 1);  // nor did the host
  synchronize(a.get());
  EXPECT_EQ(seen.as<char>()[0], 7);
}

TEST_F(EmulatedStreams, AreNotWaitedForWherePinnedMemoryGoes) {
  enqueue(a, 1);
  void* before = nullptr;
  {
    cuda::PinnedBuffer buffer(5000);
    before = buffer.data();
  }
  EXPECT_EQ(ran, std::vector<int>());
  EXPECT_EQ(cuda::PinnedBuffer(4999).data(), before);  // of one size with it
  synchronize(a.get());
}

TEST_F(EmulatedStreams, ReadPinnedMemoryLateAndOtherHostMemoryAtOnce) {
  cuda::PinnedBuffer pinned(1);
  std::vector<char> pageable{3};
  pinned.as<char>()[0] = 3;
  Tensor x = Tensor::empty({2}, DType::u8, device);
  char* data = static_cast<char*>(x.view().data);
  cuda::copy_async(data, pinned.data(), 1, current_stream(device).handle());
  cuda::copy_async(data + 1, pageable.data(), 1, current_stream(device).handle());
  pinned.as<char>()[0] = pageable[0] = 4;
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{4, 3}));
}

TEST_F(EmulatedStreams, HaveWrittenOtherHostMemoryWhenTheCopyReturns) {
  char seen = 0;
  Tensor x = Tensor::from<uint8_t>({9}, {1}, device);
  cuda::copy_async(&seen, x.view().data, 1, current_stream(device).handle());
  EXPECT_EQ(seen, 9);
}

TEST_F(EmulatedStreams, ThrowWhatLateWorkThrows) {
  cuda::emulated::enqueue(a.get().handle(), [] { fail("kernel: broke"); });
  enqueue(a, 1);
  EXPECT_EQ(message_of([&] { synchronize(a.get()); }), "kernel: broke");
  synchronize(a.get());
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

TEST_F(EmulatedStreams, FillNewMemoryWithNaNInOrder) {
  { Tensor x = Tensor::zeros({4}, DType::f32, device); }
  Tensor y = Tensor::empty({4}, DType::f32, device);  // the same block
  for (float value : y.to_vector<float>()) EXPECT_NE(value, value);
}

TEST_F(EmulatedStreams, RefuseCopiesBeyondAnAllocation) {
  void* data = cuda::allocate(0, 100);
  char host[200] = {};
  EXPECT_EQ(message_of([&] { cuda::copy_async(data, host, 101, a.get().handle()); }),
            "copy: 101 bytes at offset 0 of an allocation of 100 bytes");
  EXPECT_NE(message_of([&] { cuda::set_bytes_async(host, 0, 1, a.get().handle()); }), "");
  cuda::release(0, data);
}

TEST_F(EmulatedStreams, HaveTheMemoryThatTheirPropertiesSay) {
  cuda::DeviceProperties before = cuda::properties(0), small = before;
  memory().empty_cache();
  small.memory_bytes = memory().stats().reserved + (1 << 20);
  cuda::emulated::set_properties(0, small);
  EXPECT_THROW(Tensor::empty({2 << 20}, DType::u8, device), OutOfMemory);
  { Tensor::empty({900 << 10}, DType::u8, device); }
  EXPECT_NO_THROW(Tensor::empty({700 << 10}, DType::u8, device));  // the cache is given up for it
  cuda::emulated::set_properties(0, before);
}

}  // namespace
}  // namespace reprise
