// A tile that was not waited for is not there: TMA lands as late as it may. (In random order it may land in
// time, and ThreadSanitizer reports the race.) And TMA reads and writes device buffers to their last byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reprise/core/tensor.h"
#include "reprise/simt/emulator/options.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/simt/ptx_sm90_kernels.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

TEST(EmulatedTma, TilesLandAsLateAsTheyMay) {
  if (sanitizer::thread) GTEST_SKIP() << "a race, as it should be";
  const Order order = emulator_options().order;
  emulator_options().order = Order::forward;
  const Stream stream{Device::cuda(0)};
  PinnedArray<uint16_t> tile(64 * 64);
  PinnedArray<float> s(64 * 64), o(64 * 64);
  for (Sm90Misuse misuse : {Sm90Misuse::none, Sm90Misuse::no_wait_for_tiles}) {
    run_wgmma_products(stream, TileType::bf16, 64, 64, tile.data(), tile.data(), tile.data(), s.data(),
                       o.data(), misuse);
    synchronize(stream);
    const auto missing = std::count_if(s.data(), s.data() + s.size(), [](float x) { return std::isnan(x); });
    EXPECT_EQ(missing, misuse == Sm90Misuse::none ? 0 : 64 * 64);
  }
  emulator_options().order = order;
}

// A tensor map says more than there is: tiles of 16 x 4 from a tensor that ends one element too early.
TEST(EmulatedTma, StaysWithinDeviceBuffers) {
  if (sanitizer::address || sanitizer::thread) GTEST_SKIP() << "AddressSanitizer ends the program";
  const Stream stream{Device::cuda(0)};
  constexpr int64_t row = 64, needed = 3 * row + 16;
  auto copy = [&](int64_t there, int64_t here) {
    const Tensor from = Tensor::zeros({there}, DType::bf16, Device::cuda(0));
    const Tensor to = Tensor::zeros({here}, DType::bf16, Device::cuda(0));
    auto tiles = [](const Tensor& x) {
      return ptx::TensorTiles{.data = x.view().data,
                              .rank = 2,
                              .sizes = {row, 4},
                              .strides = {1, row},
                              .box = {16, 4},
                              .swizzle = ptx::Swizzle::none};
    };
    run_tma_copy(stream, tiles(from), {0, 0, 0, 0}, tiles(to), {0, 0, 0, 0});
    synchronize(stream);
  };
  EXPECT_NO_THROW(copy(needed, needed));
  reprise::testing::expect_error([&] { copy(needed - 1, needed); }, "loads from outside of device buffers",
                                 "16 bytes of which a buffer has the first 14");
  reprise::testing::expect_error([&] { copy(needed, needed - 1); }, "stores outside of device buffers",
                                 "16 bytes of which a buffer has the first 14");
}

}  // namespace
}  // namespace reprise::simt::testing
