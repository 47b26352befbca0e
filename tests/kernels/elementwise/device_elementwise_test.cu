// The arithmetic under the elementwise CUDA kernel: division by multiplication, and finding elements among
// more than 2^31.
#include "reprise/kernels/elementwise/elementwise.cuh"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

__global__ void divide_kernel(const int64_t* n, device::Divisor divisor, int64_t* quotients, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    quotients[i] =
        n[i] <= device::Divisor::narrow_limit ? divisor.narrow_quotient(n[i]) : divisor.wide_quotient(n[i]);
}

void divide_cuda(const Stream& stream, const TensorView& n, int64_t divisor, const TensorView& quotients) {
  simt::launch(
      {.name = "divide", .grid = dim3(unsigned((n.numel() + 63) / 64)), .block = 64, .stream = stream},
      divide_kernel, n.as<int64_t>(), device::Divisor(divisor), quotients.as<int64_t>(), n.numel());
}

Kernel<void(const TensorView& n, int64_t divisor, const TensorView& quotients)> divide{"divide", nullptr};
const OnCuda divide_on_cuda{divide, divide_cuda};

TEST(Divisor, GivesTheQuotientOfIntegers) {
  if (reprise::testing::test_device() == Device::cpu()) GTEST_SKIP() << "device code";
  constexpr int64_t limit = device::Divisor::narrow_limit;
  for (int64_t d :
       {int64_t(1), int64_t(2), int64_t(3), int64_t(5), int64_t(7), int64_t(10), int64_t(641), int64_t(50257),
        int64_t(65535), int64_t(65536), int64_t(65537), int64_t(0x2aaaaaab), limit / 2, limit - 1, limit}) {
    std::vector<int64_t> numbers = {0, 1, limit - 1, limit, limit + 1, limit * 1000 + 17};
    for (int64_t k : {int64_t(1), int64_t(2), int64_t(3), int64_t(1000), limit / d - 1, limit / d})
      for (int64_t n = k * d - 1; n <= k * d + 1; ++n)
        if (n >= 0) numbers.push_back(n);
    Array n({int64_t(numbers.size())}, DType::i64), quotients({int64_t(numbers.size())}, DType::i64);
    n.fill_with([&](int64_t i) { return double(numbers[size_t(i)]); });
    run_kernel(divide, n.view(), d, quotients.view());
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(quotients.values()[i], double(numbers[i] / d)) << numbers[i] << " / " << d;
  }
}

__global__ void find_kernel(const int64_t* items, const __grid_constant__ device::MapPlan<2> plan,
                            int64_t* offsets, int64_t count) {
  const int64_t i = threadIdx.x;
  int64_t found[2];
  if (i >= count) return;
  device::find_item(plan, items[i], plan.packs > 0 ? 8 : 1, found);
  offsets[2 * i] = found[0];
  offsets[2 * i + 1] = found[1];
}

/// Two views of one shape in memory that is never touched.
std::array<TensorView, 2> large_views(int64_t width) {
  TensorView a, b;
  a.shape = b.shape = {3, 1 << 16, width};
  a.strides = {int64_t(1) << 40, 2 * width, 1};
  b.strides = {0, width, 1};
  return {a, b};
}

void find_cuda(const Stream& stream, const TensorView& items, int64_t width, const TensorView& offsets) {
  const auto plan = device::plan_map(large_views(width), 2, 8);
  simt::launch({.name = "find", .grid = 1, .block = 64, .stream = stream}, find_kernel, items.as<int64_t>(),
               plan, offsets.as<int64_t>(), items.numel());
}

Kernel<void(const TensorView& items, int64_t width, const TensorView& offsets)> find{"find", nullptr};
const OnCuda find_on_cuda{find, find_cuda};

TEST(FindItem, CountsBeyond32Bits) {
  if (reprise::testing::test_device() == Device::cpu()) GTEST_SKIP() << "device code";
  for (int64_t width :
       {int64_t(40001), int64_t(400000), int64_t(16)}) {  // elements, packs; few enough for 32 bits
    const int64_t pack = width % 8 == 0 ? 8 : 1, row = width / pack, all = 3 * (1 << 16) * row;
    const std::vector<int64_t> numbers = {0,       row - 1,     row,           all / 2,
                                          all / 3, all / 3 - 1, all - row - 1, all - 1};
    Array items({8}, DType::i64), offsets({8, 2}, DType::i64);
    items.fill_with([&](int64_t i) { return double(numbers[size_t(i)]); });
    run_kernel(find, items.view(), width, offsets.view());
    for (size_t i = 0; i < numbers.size(); ++i) {
      int64_t j = numbers[i] % row * pack, rest = numbers[i] / row;
      int64_t inner = rest % (1 << 16), outer = rest / (1 << 16);
      EXPECT_EQ(offsets.values()[2 * i], double((outer << 40) + inner * 2 * width + j))
          << numbers[i] << " of " << all;
      EXPECT_EQ(offsets.values()[2 * i + 1], double(inner * width + j)) << numbers[i] << " of " << all;
    }
  }
}

}  // namespace
}  // namespace reprise::kernels::testing
