// Hopper's instructions (simt/ptx_sm90.h) against plain loops. Runs in the emulator and on GPUs of
// compute capability 9.0.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/core/error.h"
#include "reprise/tests/simt/ptx_sm90_kernels.h"
#include "reprise/tests/support/errors.h"

namespace reprise::simt::testing {
namespace {

using ptx::Swizzle, ptx::TensorTiles;
using reprise::testing::expect_error;

class PtxSm90 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
    if (cuda::properties(0).major != 9) GTEST_SKIP() << "needs compute capability 9.0";
  }
  Stream stream_{Device::cuda(0)};
};

/// Random elements of a 16-bit type, by rows.
struct Elements {
  Elements(TileType type, int rows, int n_columns, unsigned seed)
      : columns(n_columns), bits(size_t(rows * n_columns)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = rounded(type, normal(random), values.emplace_back());
  }
  static uint16_t rounded(TileType type, float x, double& value) {
    if (type == TileType::bf16) {
      const BFloat16 y{x};
      value = double(float(y));
      return std::bit_cast<uint16_t>(y);
    }
    const Float16 y{x};
    value = double(float(y));
    return std::bit_cast<uint16_t>(y);
  }
  double operator()(int row, int column) const { return values[size_t(row * columns + column)]; }

  int columns;
  PinnedArray<uint16_t> bits;
  std::vector<double> values;
};

struct Products {
  Products(TileType the_type, int n_keys, int n_columns)
      : type(the_type), keys(n_keys), columns(n_columns), s(size_t(64 * keys)), o(size_t(64 * columns)) {}
  void run(const Stream& stream, Sm90Misuse misuse = Sm90Misuse::none) {
    run_wgmma_products(stream, type, keys, columns, q.bits.data(), k.bits.data(), v.bits.data(), s.data(),
                       o.data(), misuse);
    synchronize(stream);
  }
  /// Largest errors of s and o.
  std::pair<double, double> errors() {
    std::pair<double, double> worst{0, 0};
    for (int i = 0; i < 64; ++i) {
      std::vector<double> p(static_cast<size_t>(keys));
      for (int j = 0; j < keys; ++j) {
        double want = 0;
        for (int c = 0; c < 64; ++c) want += q(i, c) * k(j, c);
        const float got = s[size_t(i * keys + j)];
        worst.first = std::fmax(worst.first, std::isnan(got) ? 1e9 : std::fabs(double(got) - want));
        Elements::rounded(type, got, p[size_t(j)]);
      }
      for (int c = 0; c < columns; ++c) {
        double want = 0;
        for (int j = 0; j < keys; ++j) want += p[size_t(j)] * v(j, c);
        const float got = o[size_t(i * columns + c)];
        worst.second = std::fmax(worst.second, std::isnan(got) ? 1e9 : std::fabs(double(got) - want));
      }
    }
    return worst;
  }

  TileType type;
  int keys, columns;
  Elements q{type, 64, 64, 1}, k{type, keys, 64, 2}, v{type, keys, columns, 3};
  PinnedArray<float> s, o;
};

TEST_F(PtxSm90, WgmmaMultipliesSwizzledTilesAndRegisters) {
  for (TileType type : {TileType::bf16, TileType::f16})
    for (int keys : {64, 128})
      for (int columns : {64, 128}) {
        Products products(type, keys, columns);
        products.run(stream_);
        const auto [s_error, o_error] = products.errors();
        // f32 sums of 64 terms of size 1, and of 128 of size 8: sums up to 40 and 400, a rounding each term.
        EXPECT_LT(s_error, 1e-4) << "type " << int(type) << ", " << keys << " keys, " << columns
                                 << " columns";
        EXPECT_LT(o_error, 4e-3) << "type " << int(type) << ", " << keys << " keys, " << columns
                                 << " columns";
      }
}

TEST_F(PtxSm90, MbarriersGuardARing) {
  const int rounds = 9;
  PinnedArray<int> to(rounds * 128);
  run_mbarrier_ring(stream_, rounds, to.data());
  synchronize(stream_);
  for (int i = 0; i < rounds * 128; ++i) EXPECT_EQ(to[size_t(i)], i / 128 * 1000 + i % 128) << i;
}

/// A tensor of rank 4 in memory with gaps: sizes (20, 7, 3, 2) from the inside, strides in another order.
struct Strided {
  static constexpr int64_t sizes[4] = {20, 7, 3, 2}, strides[4] = {1, 24 * 3, 24, 24 * 3 * 7 + 8};
  static constexpr size_t length = 2 * (24 * 3 * 7 + 8);
  static TensorTiles tiles(const uint16_t* data, int rank, Swizzle swizzle) {
    TensorTiles tiles{
        .data = data, .rank = rank, .sizes = {}, .strides = {}, .box = {16, 4, 2, 1}, .swizzle = swizzle};
    for (int i = 0; i < rank; ++i) {
      tiles.sizes[i] = sizes[i];
      tiles.strides[i] = strides[i];
    }
    return tiles;
  }
  static size_t offset(const int (&at)[4]) {
    size_t offset = 0;
    for (int i = 0; i < 4; ++i) offset += size_t(at[i] * strides[i]);
    return offset;
  }
};

/// Element (i, j, k, l) of a tile at `from_at`, or 0 outside the tensor, plus 1, arrives at `to_at` and
/// nothing else.
TEST_F(PtxSm90, TmaCopiesTilesAndRespectsEdges) {
  struct Place {
    int from[4], to[4];
  };
  const Place places[] = {{{0, 0, 0, 0}, {0, 0, 0, 0}},
                          {{8, 5, 2, 1}, {0, 1, 0, 1}},  // over three edges
                          {{-8, -2, -1, 0}, {8, 4, 1, 1}},
                          {{3, 1, 1, 1}, {5, 6, 2, 0}}};
  for (int rank : {2, 3, 4})
    for (Swizzle swizzle : {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32})
      for (const Place& place : places) {
        PinnedArray<uint16_t> from(Strided::length), to(Strided::length);
        std::vector<uint16_t> want(Strided::length, 9);
        for (size_t i = 0; i < Strided::length; ++i) {
          from[i] = uint16_t(100 + i);
          to[i] = 9;
        }
        int f[4] = {}, t[4] = {};
        for (int i = 0; i < rank; ++i) {
          f[i] = place.from[i];
          t[i] = place.to[i];
        }
        run_tma_copy(stream_, Strided::tiles(from.data(), rank, swizzle), f,
                     Strided::tiles(to.data(), rank, swizzle), t);
        synchronize(stream_);
        const int box[4] = {16, 4, rank > 2 ? 2 : 1, 1};
        for (int n = 0; n < box[0] * box[1] * box[2]; ++n) {
          const int within[4] = {n % box[0], n / box[0] % box[1], n / box[0] / box[1], 0};
          int source[4], target[4];
          bool read = true, written = true;
          for (int i = 0; i < 4; ++i) {
            source[i] = f[i] + within[i];
            target[i] = t[i] + within[i];
            read = read && source[i] >= 0 && source[i] < Strided::sizes[i];
            written = written && target[i] >= 0 && target[i] < Strided::sizes[i];
          }
          if (written)
            want[Strided::offset(target)] = uint16_t(1 + (read ? from[Strided::offset(source)] : 0));
        }
        for (size_t i = 0; i < Strided::length; ++i)
          EXPECT_EQ(to[i], want[i]) << "rank " << rank << ", swizzle " << int(swizzle) << ", element " << i;
      }
}

TEST_F(PtxSm90, TensorMapsAreChecked) {
  alignas(16) uint16_t data[64] = {};
  const TensorTiles good{data, 2, {16, 4}, {1, 16}, {16, 4}, Swizzle::none};
  EXPECT_EQ(defect_of(good), nullptr);
  auto defect = [&](auto&& change) {
    TensorTiles tiles = good;
    change(tiles);
    return std::string(defect_of(tiles) ? defect_of(tiles) : "");
  };
  EXPECT_NE(defect([](auto& t) { t.strides[1] = 17; }), "");
  EXPECT_NE(defect([](auto& t) { t.strides[0] = 2; }), "");
  EXPECT_NE(defect([](auto& t) { t.box[1] = 257; }), "");
  EXPECT_NE(defect([](auto& t) { t.box[0] = 4; }), "");
  EXPECT_NE(defect([](auto& t) { t.swizzle = Swizzle::bytes32, t.box[0] = 24; }), "");
  EXPECT_NE(defect([](auto& t) { t.sizes[1] = 0; }), "");
  EXPECT_NE(defect([&](auto& t) { t.data = data + 1; }), "");
}

class PtxSm90Misuse : public PtxSm90 {
 protected:
  void SetUp() override {
    if (!cuda::is_emulated()) GTEST_SKIP() << "only the emulator reports misuse";
  }
};

TEST_F(PtxSm90Misuse, IsReported) {
  const std::pair<Sm90Misuse, const char*> cases[] = {
      {Sm90Misuse::barrier_not_initialized, "not initialized"},
      {Sm90Misuse::no_barrier_fence, "mbarrier_init_fence"},
      {Sm90Misuse::too_few_bytes, "the barrier expects"},
      {Sm90Misuse::unaligned_tile, "1024-byte aligned"},
      {Sm90Misuse::no_wgmma_fence, "wgmma_fence"},
      {Sm90Misuse::wgmma_wait_too_lax, "still written"},
      {Sm90Misuse::descriptor_off_by_a_row, "after a multiple of 1024"},
  };
  for (const auto& [misuse, fact] : cases) {
    Products products(TileType::bf16, 64, 64);
    expect_error([&, the_misuse = misuse] { products.run(stream_, the_misuse); }, fact);
  }
}

TEST_F(PtxSm90Misuse, AccumulatorsAreLostUntilTheWait) {
  Products products(TileType::bf16, 64, 64);
  products.run(stream_, Sm90Misuse::no_wgmma_wait);
  EXPECT_GT(products.errors().first, 1e8);
}

TEST_F(PtxSm90Misuse, StoresNeedTheProxyFence) {
  PinnedArray<uint16_t> from(Strided::length), to(Strided::length);
  auto copy = [&] {
    run_tma_copy(stream_, Strided::tiles(from.data(), 2, Swizzle::none), {0, 0, 0, 0},
                 Strided::tiles(to.data(), 2, Swizzle::none), {0, 0, 0, 0}, false);
    synchronize(stream_);
  };
  expect_error(copy, "fence_proxy_async");
}

}  // namespace
}  // namespace reprise::simt::testing
