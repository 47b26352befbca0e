// Products by tiles of bf16: the parts of f32 numbers, how exact their products are, and what is left to vectors.
#include "reprise/kernels/gemm/matrix_unit.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reprise/kernels/gemm/matrix.h"

namespace reprise::kernels::gemm_detail {
namespace {

using tile_panel::Side;

std::vector<float> normal_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

/// The numbers of a packed panel: of each line along K, all parts added up in f64.
double unpacked(const std::vector<uint16_t>& panel, Side side, int parts, int64_t line, int64_t k) {
  double sum = 0;
  for (int part = 0; part < parts; ++part) {
    const int64_t tile = (k / 32 * parts + part) * 2 + line / 16, i = line % 16, p = k % 32;
    const int64_t at = side == Side::a ? i * 32 + p : p / 2 * 32 + 2 * i + p % 2;
    sum += double(std::bit_cast<float>(uint32_t(panel[size_t(32 + tile * 512 + at)]) << 16));
  }
  return sum;
}

TEST(TilePanel, HasTheWholeNumbers) {
  const int64_t k = 70;
  for (int64_t lines : {1, 15, 16, 17, 32})
    for (Side side : {Side::a, Side::b})
      for (bool lines_contiguous : {true, false}) {
        const std::vector<float> x = normal_numbers(40 * 80, uint32_t(lines));
        const PackSource<float> from =
            lines_contiguous ? PackSource<float>{x.data(), 80, 1} : PackSource<float>{x.data(), 1, 40};
        std::vector<uint16_t> panel(size_t(tile_panel::size(k, 3)), 0xffff);
        const amx::Session session;
        tile_panel::pack(from, lines, k, 3, side, panel.data());
        EXPECT_FALSE(tile_panel::is_marked(panel.data()));
        for (int64_t line = 0; line < (lines + 15) / 16 * 16; ++line)
          for (int64_t p = 0; p < 96; ++p) {
            const bool there = line < lines && p < k;
            ASSERT_EQ(unpacked(panel, side, 3, line, p),
                      there ? double(from.data[line * from.stride + p * from.k_stride]) : 0)
                << line << ", " << p << " of " << lines << ", side " << int(side);
          }
      }
}

TEST(TilePanel, HasSixteenDigitsInTwoParts) {
  const std::vector<float> x = normal_numbers(32 * 64, 5);
  for (Side side : {Side::a, Side::b})
    for (bool lines_contiguous : {true, false}) {
      const PackSource<float> from =
          lines_contiguous ? PackSource<float>{x.data(), 64, 1} : PackSource<float>{x.data(), 1, 32};
      std::vector<uint16_t> panel(size_t(tile_panel::size(64, 2)));
      const amx::Session session;
      tile_panel::pack(from, 32, 64, 2, side, panel.data());
      double sum_of_errors = 0;
      for (int64_t line = 0; line < 32; ++line)
        for (int64_t p = 0; p < 64; ++p) {
          const double want = from.data[line * from.stride + p * from.k_stride];
          const double error = (unpacked(panel, side, 2, line, p) - want) / std::abs(want);
          ASSERT_LE(std::abs(error), 0x1p-17) << line << ", " << p;
          sum_of_errors += want < 0 ? -error : error;
        }
      EXPECT_LE(std::abs(sum_of_errors / (32 * 64)), 0x1p-22);  // rounded, not cut off
    }
}

TEST(TilePanel, HasBf16AsTheyAre) {
  std::vector<BFloat16> x(32 * 64);
  std::mt19937 random(1);
  for (BFloat16& value : x) value = BFloat16(float(random()) * 0x1p-30f);
  for (Side side : {Side::a, Side::b})
    for (int64_t stride : {int64_t(1), int64_t(64)}) {
      std::vector<uint16_t> panel(size_t(tile_panel::size(64, 1)));
      const amx::Session session;
      tile_panel::pack(PackSource<BFloat16>{x.data(), stride, stride == 1 ? 32 : 1}, 32, 64, 1, side,
                       panel.data());
      for (int64_t line = 0; line < 32; ++line)
        for (int64_t p = 0; p < 64; ++p)
          ASSERT_EQ(unpacked(panel, side, 1, line, p),
                    double(float(x[size_t(line * stride + p * (stride == 1 ? 32 : 1))])));
    }
}

// Every finite f16 is the sum of its two parts, exactly.
TEST(TilePanel, HasEveryF16InTwoParts) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    if (const float value = float(std::bit_cast<Float16>(uint16_t(bits))); std::isfinite(value))
      x.push_back(value);
  const int64_t block = 32 * 64;
  ASSERT_EQ(x.size() % size_t(block), 0u);
  for (Side side : {Side::a, Side::b})
    for (int64_t begin = 0; begin < int64_t(x.size()); begin += block) {
      std::vector<uint16_t> panel(size_t(tile_panel::size(64, 2)));
      const amx::Session session;
      tile_panel::pack(PackSource<float>{x.data() + begin, 64, 1}, 32, 64, 2, side, panel.data());
      ASSERT_FALSE(tile_panel::is_marked(panel.data())) << begin;
      for (int64_t line = 0; line < 32; ++line)
        for (int64_t p = 0; p < 64; ++p)
          ASSERT_EQ(unpacked(panel, side, 2, line, p), double(x[size_t(begin + line * 64 + p)]));
    }
}

TEST(TilePanel, MarksWhatTilesWouldRoundOff) {
  for (auto [value, marked] : {std::pair{0.0f, false},
                               {-0.0f, false},
                               {0x1p-102f, false},
                               {-0x1.fffffep58f, false},
                               {0x1.fffffep-103f, true},
                               {-0x1p59f, true},
                               {std::numeric_limits<float>::denorm_min(), true},
                               {std::numeric_limits<float>::infinity(), true},
                               {-std::numeric_limits<float>::quiet_NaN(), true}})
    for (int64_t place : {0, 17 * 64 + 33, 31 * 64 + 63}) {
      std::vector<float> x = normal_numbers(32 * 64, 3);
      x[size_t(place)] = value;
      std::vector<uint16_t> panel(size_t(tile_panel::size(64, 3)));
      const amx::Session session;
      tile_panel::pack(PackSource<float>{x.data(), 64, 1}, 32, 64, 3, Side::a, panel.data());
      EXPECT_EQ(tile_panel::is_marked(panel.data()), marked) << value << " at " << place;
    }
}

/// C = A B by one unit, for contiguous f32 matrices.
template <class Unit>
std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n,
                            int64_t k) {
  std::vector<float> c(size_t(m * n), -1.0f);
  using Source = PackSource<float>;
  const Output<float> out{.c = {c.data(), n}};
  MatrixMultiply<float, Unit, Source, Source, Output<float>>({a.data(), k, 1}, {b.data(), 1, n}, out, m, n, k)
      .run();
  return c;
}

using Vectors = VectorUnit<float>;
using Tiles = MatrixUnit<float>;

struct Errors {
  double mean_square = 0, largest = 0;  ///< in units of 2^-24 of the sum of |a b|
};

Errors errors(const std::vector<float>& c, const std::vector<float>& a, const std::vector<float>& b,
              int64_t m, int64_t n, int64_t k) {
  Errors out;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double product = double(a[size_t(i * k + p)]) * double(b[size_t(p * n + j)]);
        sum += product, size += std::abs(product);
      }
      const double error = std::abs(double(c[size_t(i * n + j)]) - sum) / (size * 0x1p-24);
      out.mean_square += error * error / double(m * n);
      out.largest = std::max(out.largest, error);
    }
  return out;
}

TEST(MatrixUnit, IsAsExactAsVectors) {
  const int64_t m = 40, n = 48;
  for (int64_t k : {1, 8, 32, 200, 1500}) {
    SCOPED_TRACE(testing::Message() << "K = " << k);
    const std::vector<float> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
    const Errors by_vectors = errors(multiply<Vectors>(a, b, m, n, k), a, b, m, n, k);
    const Errors by_tiles = errors(multiply<Tiles>(a, b, m, n, k), a, b, m, n, k);
    EXPECT_LE(by_tiles.largest, 2 + double(k));  // what is left out, and a half for each rounding
    if (k >= 8) {
      EXPECT_LE(by_tiles.mean_square, by_vectors.mean_square);
      EXPECT_LE(by_tiles.largest, by_vectors.largest);
    }
  }
}

TEST(MatrixUnit, HasSixteenDigitsByTwoParts) {
  const int64_t m = 40, n = 48;
  for (int64_t k : {1, 32, 200}) {
    const std::vector<float> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
    const Errors found =
        errors(multiply<MatrixUnit<float, tile_panel::Split::two>>(a, b, m, n, k), a, b, m, n, k);
    EXPECT_LE(found.largest, 0x1p9 + double(k)) << k;  // 2^-15 of each product, and a half for each rounding
    EXPECT_LE(found.mean_square, k == 1 ? 0x1p14 : 0x1p14 / double(k)) << k;
  }
}

TEST(MatrixUnit, LeavesWhatIsMarkedToVectors) {
  const int64_t m = 70, n = 70, k = 300;
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (float special : {inf, std::numeric_limits<float>::quiet_NaN(), 3e38f, 1e-40f, 1e-33f}) {
    std::vector<float> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
    a[size_t(35 * k + 140)] = special;  // panels of rows 32 to 63, the second along K
    b[size_t(290 * n + 66)] = special;
    const std::vector<float> want = multiply<Vectors>(a, b, m, n, k), got = multiply<Tiles>(a, b, m, n, k);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isfinite(want[i]))
        ASSERT_NEAR(got[i], want[i], 2e-5 * std::max(1.0f, std::abs(want[i]))) << special << " at " << i;
      else
        ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
            << got[i] << " at " << i;
    }
  }
}

TEST(MatrixUnit, GivesF16TheBitsOfItsF32Product) {
  const int64_t m = 100, n = 50, k = 300;
  std::vector<float> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
  std::vector<Float16> half_a, half_b;
  auto to_halves = [](std::vector<float>& wide, std::vector<Float16>& halves) {
    wide[40] = 0x1p-24f, wide[50] = -0x1.8p-16f;  // subnormal in f16
    wide[60] = 65504, wide[70] = -0.0f;
    for (size_t i = 0; i < 300; ++i) wide[13 * 300 + i] = i % 2 ? -0.0f : 0.0f;  // a whole row of A
    for (float& x : wide) halves.push_back(Float16(x)), x = float(halves.back());
  };
  a[size_t(80 * k + 7)] = std::numeric_limits<float>::infinity();  // a panel that tiles leave to vectors
  to_halves(a, half_a), to_halves(b, half_b);
  std::vector<float> c(size_t(m * n), -1.0f);
  using Source = PackSource<Float16>;
  Output<Float16> out;
  const TensorView result{c.data(), {m, n}, {n, 1}, DType::f32, Device::cpu()};
  out.c = {Stored<Float16>(result), n};
  MatrixMultiply<Float16, MatrixUnit<Float16>, Source, Source, Output<Float16>>(
      {half_a.data(), k, 1}, {half_b.data(), 1, n}, out, m, n, k)
      .run();
  const std::vector<float> want = multiply<Tiles>(a, b, m, n, k);
  for (size_t i = 0; i < c.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(c[i]), std::bit_cast<uint32_t>(want[i]))
        << c[i] << ", want " << want[i] << " at " << i;
}

TEST(MatrixUnit, KeepsTinyNumbersDigits) {
  const int64_t m = 32, n = 32, k = 64;
  std::vector<float> a(size_t(m * k)), b(size_t(k * n));
  a[5 * k + 7] = 0x1.234566p-110f, b[7 * n + 9] = 1.0f;
  EXPECT_EQ(multiply<Tiles>(a, b, m, n, k)[5 * n + 9], 0x1.234566p-110f);
}

}  // namespace
}  // namespace reprise::kernels::gemm_detail
