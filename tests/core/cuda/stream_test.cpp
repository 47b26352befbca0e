// Streams and events: which stream is current, what waits for what, and how long it took.
#include "reprise/core/cuda/stream.h"

#include <thread>

#include "reprise/core/cuda/event.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

using CudaStream = CudaTest;

TEST(Stream, OfTheCpuIsAlwaysOne) {
  EXPECT_EQ(current_stream(Device::cpu()), Stream(Device::cpu()));
  synchronize(Device::cpu());
  EXPECT_NE(message_of([] { cuda::OwnedStream side{Device::cpu()}; }), "");
}

TEST_F(CudaStream, IsSharedByThreadsUntilAScopeSaysOtherwise) {
  Stream shared = current_stream(device), elsewhere = Stream(Device::cpu());
  EXPECT_NE(shared.handle(), nullptr);  // the default stream could not be captured
  cuda::OwnedStream side(device);
  {
    cuda::StreamScope scope(side.get());
    EXPECT_EQ(current_stream(device), side.get());
    std::thread([&] { elsewhere = current_stream(device); }).join();
  }
  EXPECT_EQ(elsewhere, shared);
  EXPECT_EQ(current_stream(device), shared);
}

TEST_F(CudaStream, HasOneOwnerAndIsUsedAgainLater) {
  void* first = nullptr;
  {
    cuda::OwnedStream a(device), b(device);
    EXPECT_FALSE(a.get() == b.get());
    first = a.get().handle();
    cuda::OwnedStream moved = std::move(a);
    EXPECT_EQ(moved.get().handle(), first);
    EXPECT_TRUE(a.get().device().is_cpu());
  }
  cuda::OwnedStream again(device), other(device);
  EXPECT_TRUE(again.get().handle() == first || other.get().handle() == first);
}

TEST_F(CudaStream, WaitsForAnEventOfAnotherStream) {
  cuda::OwnedStream writer(device), reader(device);
  const Tensor x = Tensor::zeros({1000}, DType::u8, device);
  synchronize(device);
  std::vector<char> seen(1000);
  cuda::set_bytes_async(x.view().data, 7, 1000, writer.get().handle());
  cuda::Event written(device);
  written.record(writer.get());
  written.make_wait(reader.get());
  cuda::copy_async(seen.data(), x.view().data, 1000, reader.get().handle());
  synchronize(reader.get());
  EXPECT_EQ(seen, std::vector<char>(1000, 7));
  EXPECT_TRUE(written.is_done());
}

TEST_F(CudaStream, EventsMeasureTime) {
  cuda::Event begin(device, cuda::Event::Timing::on), end(device, cuda::Event::Timing::on);
  EXPECT_TRUE(begin.is_done());  // never recorded
  Tensor x = Tensor::zeros({1 << 20}, DType::f32, device);
  begin.record(current_stream(device));
  cuda::set_bytes_async(x.view().data, 1, 4 << 20, current_stream(device).handle());
  end.record(current_stream(device));
  end.synchronize();
  double seconds = seconds_between(begin, end);
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 10);
  cuda::Event moved = std::move(end);
  EXPECT_TRUE(moved.is_done());
}

TEST_F(CudaStream, IsAskedAboutEventsUntilTheyAreDone) {
  cuda::OwnedStream side(device);
  Tensor x = Tensor::zeros({1 << 20}, DType::u8, device);
  synchronize(device);
  for (int i = 0; i < 10; ++i) cuda::set_bytes_async(x.view().data, 1, 1 << 20, side.get().handle());
  cuda::Event done(device);
  done.record(side.get());
  while (!done.is_done()) std::this_thread::yield();
  EXPECT_EQ(x.alias(slice(x.view(), 0, 0, 1)).item(), 1);
}

}  // namespace
}  // namespace reprise
