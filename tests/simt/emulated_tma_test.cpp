// A tile that was not waited for is not there: TMA lands as late as it may. (In random order it may land in
// time, and ThreadSanitizer reports the race.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reprise/simt/emulator/options.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/simt/ptx_sm90_kernels.h"

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

}  // namespace
}  // namespace reprise::simt::testing
