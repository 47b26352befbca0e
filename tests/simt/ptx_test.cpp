// Each wrapper of simt/ptx.h against the PTX manual, written here a second time: where an element of a
// tile lies is looked up from the element, not from the lane. Runs on whatever answers as `cuda`, emulator or
// GPU.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/tests/simt/ptx_kernels.h"

namespace reprise::simt::testing {
namespace {

class Ptx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::unavailable_reason();
  }
  double normal() { return std::normal_distribution<double>()(random_); }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  std::mt19937 random_{7};
  Stream stream_{Device::cuda(0)};
};

/// A number as a tile of the type stores it, and its bits.
struct Stored {
  double value;
  uint32_t bits;
};
Stored stored(TileType type, double x) {
  if (type == TileType::bf16) {
    BFloat16 rounded{float(x)};
    return {double(float(rounded)), std::bit_cast<uint16_t>(rounded)};
  }
  if (type == TileType::f16) {
    Float16 rounded{float(x)};
    return {double(float(rounded)), std::bit_cast<uint16_t>(rounded)};
  }
  const uint32_t bits = std::bit_cast<uint32_t>(float(x));
  return {double(std::bit_cast<float>(bits & ~0x1fffu)), bits};
}

/// Puts the bits of an element where Note [Fragments] says: 16-bit types two a register along K.
void put(TileType type, std::span<uint32_t> registers, int per_lane, int row_group, int row, int k,
         uint32_t bits) {
  // `row` is the row of A or the column of B: lanes go along it by fours. Blocks of 8 of it, then of K, are
  // registers.
  const int half_k = type == TileType::tf32 ? 4 : 8;
  const int along_k = type == TileType::tf32 ? k % 4 : k % 8 / 2;
  const int lane = row % 8 * 4 + along_k;
  const int index = row / 8 + row_group * (k / half_k);
  const int shift = type == TileType::tf32 ? 0 : 16 * (k % 2);
  registers[size_t(lane * per_lane + index)] |= bits << shift;
}

TEST_F(Ptx, MmaMultipliesTiles) {
  for (TileType type : {TileType::bf16, TileType::f16, TileType::tf32}) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      const int depth = type == TileType::tf32 ? 8 : 16;
      PinnedArray<uint32_t> a(32 * 4), b(32 * 2);
      PinnedArray<float> d(32 * 4);
      double a_values[16][16], b_values[16][8], want[16][8], scale[16][8];
      for (int i = 0; i < 16; ++i)
        for (int k = 0; k < depth; ++k) {
          Stored x = stored(type, normal());
          a_values[i][k] = x.value;
          put(type, {a.data(), a.size()}, 4, 2, i, k, x.bits);
        }
      for (int j = 0; j < 8; ++j)
        for (int k = 0; k < depth; ++k) {
          Stored x = stored(type, normal() * (repeat == 1 ? 1e-6 : 1));  // subnormal in f16
          b_values[k][j] = x.value;
          put(type, {b.data(), b.size()}, 2, 1, j, k, x.bits);
        }
      auto at = [](int i, int j) { return size_t((i % 8 * 4 + j / 2) * 4 + i / 8 * 2 + j % 2); };
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
          d[at(i, j)] = repeat == 1 ? 0.0f : float(normal());
          want[i][j] = double(d[at(i, j)]);
          scale[i][j] = std::fabs(want[i][j]);
          for (int k = 0; k < depth; ++k) {
            want[i][j] += a_values[i][k] * b_values[k][j];
            scale[i][j] += std::fabs(a_values[i][k] * b_values[k][j]);
          }
        }
      run_mma(stream_, type, a.data(), b.data(), d.data());
      synchronize(stream_);
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j)
          // Tensor cores align the products to the largest and cut: up to one unit of f32 for each of 17
          // terms.
          EXPECT_NEAR(double(d[at(i, j)]), want[i][j], scale[i][j] * 0x1p-20)
              << "type " << int(type) << ", row " << i << ", column " << j;
    }
  }
}

TEST_F(Ptx, MmaKeepsInfinityAndNan) {
  for (TileType type : {TileType::bf16, TileType::f16}) {
    PinnedArray<uint32_t> a(32 * 4), b(32 * 2);
    PinnedArray<float> d(32 * 4);
    put(type, {a.data(), a.size()}, 4, 2, 3, 5, stored(type, INFINITY).bits);
    put(type, {a.data(), a.size()}, 4, 2, 12, 9, stored(type, NAN).bits);
    for (int k = 0; k < 16; ++k) put(type, {b.data(), b.size()}, 2, 1, 6, k, stored(type, -1).bits);
    run_mma(stream_, type, a.data(), b.data(), d.data());
    synchronize(stream_);
    EXPECT_EQ(d[(3 * 4 + 3) * 4], -INFINITY);         // row 3, column 6
    EXPECT_TRUE(std::isnan(d[(4 * 4 + 3) * 4 + 2]));  // row 12, column 6
    EXPECT_EQ(d[(5 * 4 + 3) * 4], 0.0f);              // row 5, column 6
  }
}

TEST_F(Ptx, LdmatrixLoadsMatricesAndTransposes) {
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true}) {
      PinnedArray<uint16_t> memory(64 * 8);
      PinnedArray<int> rows(32);
      PinnedArray<uint32_t> r(32 * 4);
      for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint16_t(below(65536));
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = below(64);
      run_ldmatrix(stream_, count, transposed, memory.data(), rows.data(), r.data());
      synchronize(stream_);
      for (int j = 0; j < count; ++j)
        for (int row = 0; row < 8; ++row)
          for (int column = 0; column < 8; ++column) {
            const uint16_t want = memory[size_t(rows[size_t(8 * j + row)] * 8 + column)];
            const int r_row = transposed ? column : row, r_column = transposed ? row : column;
            const uint32_t pair = r[size_t((4 * r_row + r_column / 2) * 4 + j)];
            EXPECT_EQ(r_column % 2 ? pair >> 16 : pair & 0xffff, want)
                << "x" << count << (transposed ? ".trans" : "") << ", matrix " << j << ", row " << row
                << ", column " << column;
          }
    }
}

TEST_F(Ptx, CpAsyncDeliversGroupsInOrderAndZeros) {
  for (int bytes : {4, 8, 16}) {
    const size_t pieces = copy_stages * copy_threads;
    PinnedArray<unsigned char> from(pieces * size_t(bytes)), to(pieces * size_t(bytes));
    PinnedArray<bool> valid(pieces);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(1 + below(255));
    for (size_t i = 0; i < pieces; ++i) valid[i] = below(3) != 0;
    run_cp_async(stream_, bytes, from.data(), valid.data(), to.data());
    synchronize(stream_);
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t piece = i / size_t(bytes), within = i % size_t(bytes);
      const size_t source = piece / copy_threads * copy_threads + copy_threads - 1 - piece % copy_threads;
      EXPECT_EQ(int(to[i]), valid[source] ? int(from[source * size_t(bytes) + within]) : 0)
          << bytes << " bytes, piece " << piece << ", byte " << within;
    }
  }
}

/// n random bf16 values, their bits in pinned memory.
struct Matrix {
  Matrix(int rows, int n_columns, const std::function<double()>& draw)
      : columns(n_columns), bits(size_t(rows * n_columns)) {
    for (size_t i = 0; i < bits.size(); ++i) {
      Stored x = stored(TileType::bf16, draw());
      values.push_back(x.value);
      bits[i] = uint16_t(x.bits);
    }
  }
  double operator()(int i, int j) const { return values[size_t(i * columns + j)]; }
  int columns;
  PinnedArray<uint16_t> bits;
  std::vector<double> values;
};

TEST_F(Ptx, TwoProductsChainThroughFragments) {
  auto draw = [this] { return normal(); };
  Matrix q(16, 32, draw), k(8, 32, draw), v(16, 16, draw);
  PinnedArray<float> y(16 * 8), z(16 * 16);
  run_two_products(stream_, q.bits.data(), k.bits.data(), v.bits.data(), y.data(), z.data());
  synchronize(stream_);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double want = 0;
      for (int c = 0; c < 32; ++c) want += q(i, c) * k(j, c);
      EXPECT_NEAR(double(y[size_t(i * 8 + j)]), want, 1e-4) << i << ", " << j;  // |sum| < 40, f32
    }
    for (int j = 0; j < 16; ++j) {
      double want = 0;
      for (int c = 0; c < 16; ++c)
        want += stored(TileType::bf16, double(y[size_t(i * 8 + c % 8)])).value * v(c, j);
      EXPECT_NEAR(double(z[size_t(i * 16 + j)]), want, 5e-4) << i << ", " << j;  // |sum| < 200, f32
    }
  }
}

TEST_F(Ptx, NamedBarriersPassWorkOnAndBack) {
  const int rounds = 5;
  PinnedArray<int> to(rounds * 64);
  run_named_barriers(stream_, rounds, to.data());
  synchronize(stream_);
  for (int round = 0; round < rounds; ++round)
    for (int t = 0; t < 64; ++t)
      EXPECT_EQ(to[size_t(round * 64 + t)], 100 * round + 63 - t) << round << ", " << t;
}

TEST_F(Ptx, ApproximationsKeepTheirBounds) {
  const int n = 1000;
  PinnedArray<float> x(n);
  PinnedArray<Approximations> y(n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(normal() * 10);
  x[0] = -INFINITY;
  x[1] = -200;
  x[2] = 0;
  x[3] = INFINITY;
  x[4] = 1.00048828125f;  // 1 + 2^-11: half a unit of TF32, rounds up
  run_approximations(stream_, x.data(), y.data(), n);
  synchronize(stream_);
  EXPECT_EQ(y[0].exp2, 0.0f);
  EXPECT_EQ(y[1].exp2, 0.0f);
  EXPECT_EQ(y[2].exp2, 1.0f);
  EXPECT_EQ(y[3].exp2, INFINITY);
  EXPECT_EQ(y[2].log2, -INFINITY);
  EXPECT_EQ(y[4].tf32, 0x3f802000u);
  EXPECT_EQ(y[3].tf32, 0x7f800000u);
  for (size_t i = 4; i < x.size(); ++i) {
    const double value = double(x[i]);
    if (value > -126) {
      EXPECT_NEAR(double(y[i].exp2) / std::exp2(value), 1, 0x1p-22 * 1.5) << value;  // the manual: 2 ulp
    }
    if (value > 0) {  // the manual: 2^-22 absolute near 1, 2 ulp elsewhere
      EXPECT_NEAR(double(y[i].log2), std::log2(value),
                  0x1p-22 * std::max(1.0, 2 * std::fabs(std::log2(value))))
          << value;
    } else if (value < 0) {
      EXPECT_TRUE(std::isnan(y[i].log2)) << value;
    }
    EXPECT_NEAR(double(y[i].tanh), std::tanh(value), 0x1p-10 * std::fabs(std::tanh(value)))
        << value;  // 2^-11, 2 x
    EXPECT_NEAR(double(std::bit_cast<float>(y[i].tf32)), value, 0x1p-11 * std::fabs(value)) << value;
    EXPECT_EQ(y[i].tf32 & 0x1fff, 0u);
  }
}

}  // namespace
}  // namespace reprise::simt::testing
