// OffloadedTensor tensors one by one: views, dtypes, sharing, and what happens when there is no room.
#include "reprise/autograd/recompute/offload/offloaded_tensor.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "reprise/tests/autograd/recompute/offload/offload_support.h"

namespace reprise {
namespace {

using testing::all_sizes;
using testing::bytes_of;
using testing::Chain;
using testing::kBytes;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

// Offloads view(x), lets x go, and expects the same view back.
template <class View>
void expect_same_view(const Tensor& whole, const View& view) {
  NoGrad none;
  auto offload = all_sizes();
  Tensor x = whole.clone(), v = view(x);
  std::vector<unsigned char> want = bytes_of(v);
  Shape shape = v.shape();
  Strides strides = v.strides();
  DType dtype = v.dtype();
  auto address = reinterpret_cast<uintptr_t>(v.view().data);
  auto offloaded = offload->put(v);
  std::weak_ptr<Storage> origin = v.storage();
  x = v = Tensor();
  offload->begin_region();  // copies have been made
  ASSERT_TRUE(origin.expired());
  for (int time = 0; time < 2; ++time) {
    Tensor back = offloaded->fetch();
    EXPECT_EQ(back.shape(), shape);
    EXPECT_EQ(back.strides(), strides);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.device(), test_device());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(back.view().data) % 64, address % 64);
    EXPECT_EQ(bytes_of(back), want);
    EXPECT_FALSE(back.requires_grad());
  }
}

TEST(OffloadedTensor, ReturnsViewsWithTheirStrides) {
  Tensor x = numbers({4, 6, 10});
  expect_same_view(x, [](const Tensor& t) { return t; });
  expect_same_view(x, [](const Tensor& t) { return t.transpose(0, 2); });
  expect_same_view(x, [](const Tensor& t) { return t.slice(2, 1, 9, 3); });
  expect_same_view(x, [](const Tensor& t) { return t.select(0, 2).slice(0, 1, 5); });
  expect_same_view(x, [](const Tensor& t) { return t.slice(0, 3, 4).slice(1, 5, 6).expand({7, 3, 10}); });
  expect_same_view(x, [](const Tensor& t) { return t.select(0, 3).select(0, 5).select(0, 9); });
}

TEST(OffloadedTensor, ReturnsEveryDtype) {
  Tensor x = numbers({33, 7});
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    expect_same_view(x.to(dtype), [](const Tensor& t) { return t.slice(0, 3, 31); });
}

TEST(OffloadedTensor, StoresOnceWhatViewsOfOneTensorShare) {
  NoGrad none;
  auto offload = all_sizes();
  Tensor qkv = numbers({8, 3, 32});
  size_t bytes = qkv.storage()->bytes();
  std::vector<std::shared_ptr<recompute::OffloadedTensor>> offloaded;
  TensorList want;
  for (int64_t i : {0, 1, 2}) {
    want.push_back(qkv.select(1, i).clone());
    offloaded.push_back(offload->put(qkv.select(1, i)));
  }
  EXPECT_EQ(offload->stats().written_bytes, bytes);
  qkv = Tensor();
  offload->begin_region();
  TensorList back;
  for (const auto& p : offloaded) back.push_back(p->fetch());
  EXPECT_TRUE(same_bits(back, want));
  EXPECT_EQ(offload->stats().read_bytes, bytes);
  offloaded.clear();
  EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
}

TEST(OffloadedTensor, TakesOnlyWhatASmallViewNeeds) {
  auto offload = all_sizes();
  Tensor data = numbers({1000, 64});
  auto offloaded = offload->put(data.slice(0, 10, 20));
  EXPECT_LE(offload->stats().written_bytes, 10u * 64 * 4 + 256);
}

TEST(OffloadedTensor, IsTheSameMemoryWhileSomebodyElseHoldsIt) {
  auto offload = all_sizes();
  Tensor x = numbers({64, 64});
  auto offloaded = offload->put(x);
  offload->begin_region();
  EXPECT_EQ(offloaded->fetch().storage(), x.storage());
  EXPECT_EQ(offload->stats().read_bytes, 0u);
}

TEST(OffloadedTensor, GivesAPrefetchBackWhenItGoes) {
  NoLeaks guard;
  auto offload = all_sizes();
  auto offloaded = offload->put(numbers({64, 64}));
  offload->begin_region();
  offloaded->prefetch();
  offloaded->prefetch();
  offloaded.reset();
  EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
}

TEST(OffloadedTensor, KnowsVersionsOfOneTensorApart) {
  NoGrad none;
  auto offload = all_sizes();
  Tensor x = numbers({64, 64});
  auto first = offload->put(x);
  x.fill_(3);
  auto second = offload->put(x);
  std::vector<unsigned char> want = bytes_of(x);
  testing::expect_error([&] { first->fetch(); }, {"offload", "changed in place"});
  x = Tensor();
  offload->begin_region();
  EXPECT_EQ(bytes_of(second->fetch()), want);
}

TEST(OffloadedTensor, ReturnsTheOldValueAfterSomebodyWroteToWhatWasFetched) {
  NoGrad none;
  auto offload = all_sizes();
  Tensor x = numbers({64, 64});
  std::vector<unsigned char> want = bytes_of(x);
  auto offloaded = offload->put(x);
  x = Tensor();
  offload->begin_region();
  Tensor back = offloaded->fetch();
  EXPECT_EQ(offloaded->fetch().storage(), back.storage());
  back.fill_(3);
  EXPECT_EQ(bytes_of(offloaded->fetch()), want);
}

// Files of this process cannot grow over `bytes` while it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : previous_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    rlimit low = limit_;
    low.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, previous_);
  }

 private:
  rlimit limit_{};
  void (*previous_)(int);
};

TEST(Offload, KeepsTensorsInMemoryWhenTheFileCannotGrow) {
  if (test_device().is_cuda()) GTEST_SKIP() << "a spill file is the CPU's";
  Chain chain(6);
  TensorList want = chain.plain();
  auto offload = all_sizes(0);
  ::testing::internal::CaptureStderr();
  {
    FileLimit limit(2 * kBytes);
    EXPECT_TRUE(same_bits(chain.train(Chain::offloaded(offload)), want));
  }
  std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("offload: warning: tensors stay in memory: spill file: cannot write"),
            std::string::npos);
  EXPECT_EQ(warning.find("warning"), warning.rfind("warning")) << "it is given once";
  EXPECT_EQ(offload->stats().failures, 3u);
  EXPECT_EQ(offload->stats().peak_offloaded_bytes, 2 * kBytes);
  EXPECT_TRUE(same_bits(chain.train(Chain::offloaded(offload)), want));  // there is room again
  EXPECT_EQ(offload->stats().failures, 3u);
}

TEST(Offload, KeepsTensorsInMemoryWhenThereIsNoFolder) {
  if (test_device().is_cuda()) GTEST_SKIP() << "a spill file is the CPU's";
  Chain chain(3);
  TensorList want = chain.plain();
  auto offload = std::make_shared<Offload>(
      OffloadOptions{.resident_regions = 0, .min_bytes = 1, .folder = "/nonexistent/folder"});
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(same_bits(chain.train(Chain::offloaded(offload)), want));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("/nonexistent/folder"), std::string::npos);
}

}  // namespace
}  // namespace reprise
