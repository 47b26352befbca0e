// Offload on a CUDA device: copies and compute in every order that the streams allow.
#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/tests/autograd/recompute/offload/offload_support.h"

namespace reprise {
namespace {

using testing::all_sizes;
using testing::bytes_of;
using testing::kRows;
using testing::kWidth;
using testing::numbers;
using testing::test_device;

// The copy stream of `offload` is known: a store takes the stream that was given back last.
class OffloadStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has one stream";
    cuda::OwnedStream stream(test_device());
    copies_.emplace(stream.get());
  }
  // Copies run as early as they may, before anybody wants them.
  void run_copies() { synchronize(*copies_); }
  void run_compute() { synchronize(current_stream(test_device())); }

  // What is let go from now on is used again next.
  static void empty_cache() { allocator(test_device()).empty_cache(); }

  static Tensor make() { return square(numbers({kRows, kWidth})); }
  // Something else in the memory that was let go last.
  static Tensor fill() {
    Tensor x = Tensor::empty({kRows, kWidth}, DType::f32, test_device());
    return x.fill_(7);
  }

  // No memory that is handed out holds old values by chance.
  void scrub() {
    TensorList all;
    for (int i = 0; i < 8; ++i) all.push_back(fill());
    run_compute();
  }

  // A tensor that is offloaded and gone.
  std::shared_ptr<recompute::OffloadedTensor> away() {
    auto offloaded = offload->put(make());
    offload->begin_region();
    run_copies();
    return offloaded;
  }

  NoGrad none;
  std::vector<unsigned char> want;
  std::shared_ptr<Offload> offload = all_sizes();

 private:
  std::optional<Stream> copies_;
};

TEST_F(OffloadStreams, CopiesComeAfterTheWorkThatMakesTheTensor) {
  want = bytes_of(make());
  scrub();
  auto offloaded = offload->put(make());
  run_copies();
  offload->begin_region();
  Tensor other = fill();
  EXPECT_EQ(bytes_of(offloaded->fetch()), want);
}

TEST_F(OffloadStreams, MemoryIsUsedAgainAfterTheCopyOnly) {
  want = bytes_of(make());
  Tensor x = make();
  empty_cache();
  const void* memory = x.view().data;
  auto offloaded = offload->put(x);
  x = Tensor();
  offload->begin_region();
  Tensor other = fill();
  ASSERT_EQ(other.view().data, memory);
  run_compute();
  EXPECT_EQ(bytes_of(offloaded->fetch()), want);
}

TEST_F(OffloadStreams, CopiesBackComeAfterTheWorkThatUsedTheirMemory) {
  auto offloaded = away();
  want = bytes_of(fill());
  Tensor x = fill();
  run_compute();
  empty_cache();
  const void* memory = x.view().data;
  Tensor y = x.clone();
  x = Tensor();
  offloaded->prefetch();
  run_copies();
  EXPECT_EQ(bytes_of(y), want);
  EXPECT_EQ(offloaded->fetch().view().data, memory);
}

TEST_F(OffloadStreams, APrefetchThatIsGivenUpDoesNotWriteToMemoryOfOthers) {
  auto offloaded = away();
  want = bytes_of(fill());
  empty_cache();
  offloaded->prefetch();
  offloaded.reset();
  Tensor other = fill();
  run_compute();
  run_copies();
  EXPECT_EQ(bytes_of(other), want);
}

TEST_F(OffloadStreams, FetchesOnAnotherStreamThanThePrefetch) {
  want = bytes_of(make());
  auto offloaded = away();
  scrub();
  offloaded->prefetch();
  cuda::OwnedStream side(test_device());
  cuda::StreamScope scope(side.get());
  EXPECT_EQ(bytes_of(offloaded->fetch()), want);
}

TEST_F(OffloadStreams, RefusesToParkWhileAGraphIsCaptured) {
  Tensor x = make();
  run_compute();
  cuda::OwnedStream stream(test_device());
  testing::expect_error([&] { cuda::Graph graph(stream.get(), [&] { offload->put(x); }); },
                        {"offload: a CUDA graph is captured"});
  EXPECT_EQ(bytes_of(offload->put(x)->fetch()), bytes_of(x));
}

}  // namespace
}  // namespace reprise
