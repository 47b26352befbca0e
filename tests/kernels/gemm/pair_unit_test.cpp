// Products by pairs of bf16: what is packed, and sums against f64. By the model where this CPU has no AVX512-BF16.
#include "reprise/kernels/gemm/pair_unit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/matrix.h"

namespace reprise::kernels::gemm_detail {
namespace {

std::vector<BFloat16> normal_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> x(static_cast<size_t>(count));
  for (BFloat16& value : x) value = BFloat16(normal(random));
  return x;
}

/// `lines` x `k` numbers that end with their vector, so that nothing may be read behind them.
struct Lines {
  std::vector<BFloat16> numbers;
  PackSource<BFloat16> source;

  Lines(int64_t lines, int64_t k, bool along_k, int64_t gap)
      : numbers(normal_numbers(along_k ? (lines - 1) * (k + gap) + k : (k - 1) * (lines + gap) + lines, 3)),
        source{numbers.data(), along_k ? k + gap : 1, along_k ? 1 : lines + gap} {}

  BFloat16 at(int64_t line, int64_t k) const {
    return source.data[line * source.stride + k * source.k_stride];
  }
};

void expect_packed(const Lines& from, int64_t lines, int64_t k, int64_t width) {
  std::vector<uint32_t> to(size_t(PairUnit::panel_size(width, k)), 0xdeadbeef);
  pair_panel::pack(from.source, lines, k, width, to.data());
  for (int64_t line = 0; line < width; ++line)
    for (int64_t p = 0; p < (k + 1) / 2 * 2; ++p) {
      const uint32_t word = to[size_t(p / 2 * width + line)];
      const uint16_t want = line < lines && p < k ? from.at(line, p).bits : 0;
      ASSERT_EQ(p % 2 ? word >> 16 : word & 0xffff, want)
          << "line " << line << " of " << lines << ", " << p << " of " << k;
    }
}

TEST(PairPanel, HasTheNumbersWhereverTheyLie) {
  for (int64_t width : {pair_panel::rows, pair_panel::columns})
    for (int64_t lines : {int64_t(1), width - 1, width})
      for (int64_t k : {1, 2, 31, 32, 33, 70})
        for (bool along_k : {true, false})
          for (int64_t gap : {0, 5}) expect_packed(Lines(lines, k, along_k, gap), lines, k, width);
}

TEST(PairPanel, RepeatsALineWithoutAStride) {
  const std::vector<BFloat16> x = normal_numbers(pair_panel::rows, 4);
  std::vector<uint32_t> to(size_t(PairUnit::panel_size(pair_panel::rows, 9)));
  pair_panel::pack({x.data(), 1, 0}, pair_panel::rows, 9, pair_panel::rows, to.data());
  for (int64_t p = 0; p < 9; ++p)
    for (int64_t line = 0; line < pair_panel::rows; ++line)
      ASSERT_EQ(uint16_t(to[size_t(p / 2 * pair_panel::rows + line)] >> (p % 2 * 16)), x[size_t(line)].bits);
}

TEST(PairPanel, TakesNumbersThatWerePackedAsF32) {
  constexpr int64_t width = pair_panel::rows, k = 3;
  std::vector<float> panel(size_t(width * (k + 1)));
  for (size_t i = 0; i < panel.size(); ++i) panel[i] = float(BFloat16(float(i) + 0.5f));
  std::vector<uint32_t> to(size_t(2 * width));
  pair_panel::pack_widened(panel.data(), k, width, to.data());
  for (int64_t p = 0; p < 4; ++p)
    for (int64_t line = 0; line < width; ++line)
      ASSERT_EQ(uint16_t(to[size_t(p / 2 * width + line)] >> (p % 2 * 16)),
                p < k ? BFloat16(panel[size_t(p * width + line)]).bits : 0);
}

/// C = A B in f32, A's rows contiguous or its columns.
std::vector<float> multiply(const std::vector<BFloat16>& a, const std::vector<BFloat16>& b, int64_t m,
                            int64_t n, int64_t k, bool transposed) {
  std::vector<float> sums(size_t(m * n), -1.0f);
  using Source = PackSource<BFloat16>;
  const TensorView c{sums.data(), {m, n}, {n, 1}, DType::f32, Device::cpu()};
  const Output<BFloat16> out{.c = {Stored<BFloat16>(c), n}};
  const Source left = transposed ? Source{a.data(), 1, m} : Source{a.data(), k, 1};
  const Source right = transposed ? Source{b.data(), k, 1} : Source{b.data(), 1, n};
  MatrixMultiply<BFloat16, PairUnit, Source, Source, Output<BFloat16>>(left, right, out, m, n, k).run();
  return sums;
}

TEST(PairUnit, IsTheSumOfTheProducts) {
  struct Size {
    int64_t m, n, k;
  };
  for (auto [m, n, k] :
       {Size{1, 1, 1}, {5, 19, 7}, {14, 32, 32}, {33, 70, 301}, {17, 40, 1030}, {29, 17, 2100}})
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << (transposed ? ", transposed" : ""));
      const std::vector<BFloat16> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
      const std::vector<float> c = multiply(a, b, m, n, k, transposed);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (int64_t p = 0; p < k; ++p) {
            const double product = double(float(a[size_t(transposed ? p * m + i : i * k + p)])) *
                                   double(float(b[size_t(transposed ? j * k + p : p * n + j)]));
            sum += product, size += std::abs(product);
          }
          ASSERT_NEAR(c[size_t(i * n + j)], sum, double(k + 8) * 0x1p-24 * size) << i << ", " << j;
        }
    }
}

TEST(PairUnit, HasTheSameBitsOnAnyThreads) {
  const int64_t m = 60, n = 130, k = 700;
  const std::vector<BFloat16> a = normal_numbers(m * k, 1), b = normal_numbers(k * n, 2);
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<float> want = multiply(a, b, m, n, k, false);
  for (int count : {2, 4}) {
    set_num_threads(count);
    EXPECT_EQ(multiply(a, b, m, n, k, false), want) << count << " threads";
  }
  set_num_threads(threads);
}

}  // namespace
}  // namespace reprise::kernels::gemm_detail
