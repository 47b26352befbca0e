// Memory that a library hands out: tensors lie in it, streams and limits are as ever, and it goes back to the library.
#include <atomic>

#include "reprise/core/cuda/library_memory.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/tests/core/cuda/cuda_test.h"

namespace reprise {
namespace {

std::atomic<int> obtained{0}, given_back{0};
bool has_memory = true;

constexpr cuda::LibraryMemory library{.obtain = [](int device, size_t bytes) -> void* {
                                        if (!has_memory) return nullptr;
                                        ++obtained;
                                        return cuda::allocate(device, bytes);
                                      },
                                      .give_back =
                                          [](int device, void* data) noexcept {
                                            ++given_back;
                                            cuda::release(device, data);
                                          }};

class LibraryMemory : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    memory().empty_cache();
    obtained = given_back = 0;
    has_memory = true;
  }
  Tensor bytes(int64_t count) { return Tensor::empty({count}, DType::u8, device); }
  static void* address(const Tensor& x) { return x.view().data; }
};

TEST_F(LibraryMemory, HoldsTensorsOfItsScopeAndGoesBackToTheLibrary) {
  const MemoryStats before = memory().stats();
  {
    Tensor inside;
    {
      cuda::LibraryMemoryScope scope(library);
      inside = bytes(10'000);
      EXPECT_EQ(obtained, 1);
      EXPECT_EQ(memory().stats().allocated, before.allocated + 10'000);
    }
    const Tensor outside = bytes(10'000);
    EXPECT_EQ(obtained, 1);
  }
  EXPECT_EQ(given_back, 0) << "kept for reuse";
  memory().empty_cache();
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(memory().stats().reserved, before.reserved);
}

TEST_F(LibraryMemory, IsUsedAgainInScopesAloneAndOnItsStream) {
  const auto inside = [&] {
    cuda::LibraryMemoryScope scope(library);
    return address(bytes(10'000));
  };
  const void* first = inside();
  EXPECT_NE(address(bytes(10'000)), first);
  EXPECT_EQ(inside(), first);
  cuda::OwnedStream side(device);
  {
    cuda::StreamScope scope(side.get());
    EXPECT_NE(inside(), first);
  }
  EXPECT_EQ(inside(), first);
  EXPECT_EQ(obtained, 2);
}

TEST_F(LibraryMemory, IsRefusedByTheLimitAndByTheLibrary) {
  cuda::LibraryMemoryScope scope(library);
  memory().set_limit(memory().stats().reserved + 5'000);
  EXPECT_THROW(bytes(10'000), OutOfMemory);
  memory().set_limit(0);
  has_memory = false;
  EXPECT_THROW(bytes(10'000), OutOfMemory);
  EXPECT_EQ(obtained, 0);
}

}  // namespace
}  // namespace reprise
