// Random fills: the exact map from Philox words to elements, and the statistics of the results.
// slow in tsan
#include "reprise/kernels/elementwise/random_fill.h"

#include "reprise/core/parallel.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr DType floating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

TEST(FillUniform, TakesWordIModFourOfBlockIOverFour) {
  Array y({3, 5, 7}, DType::f32, Layout::stepped);
  run_kernel(fill_uniform, y.view(), 0, 1, 11, 13);
  std::vector<double> got = y.values();
  for (uint64_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], double(philox_block(11, 13, i / 4)[i % 4] >> 8) * 0x1p-24);
}

TEST(FillUniform, TakesFiftyThreeBitsForF64) {
  Array y({37}, DType::f64);
  run_kernel(fill_uniform, y.view(), 0, 1, 11, 13);
  std::vector<double> got = y.values();
  for (uint64_t i = 0; i < got.size(); ++i) {
    auto words = philox_block(11, 13, i / 2);
    uint64_t bits = uint64_t(words[2 * (i % 2) + 1]) << 32 | words[2 * (i % 2)];
    EXPECT_EQ(got[i], double(bits >> 11) * 0x1p-53);
  }
}

TEST(FillNormal, IsBoxMullerOverPairsOfABlock) {
  Array y({37}, DType::f32);
  run_kernel(fill_normal, y.view(), 0.5, 2, 11, 13);
  std::vector<double> got = y.values();
  for (uint64_t i = 0; i < got.size(); ++i) {
    auto words = philox_block(11, 13, i / 4);
    double unit = (double(words[i % 4 / 2 * 2]) + 0.5) * 0x1p-32,
           turn = double(words[i % 4 / 2 * 2 + 1] >> 8) * 0x1p-24;
    double z =
        std::sqrt(-2 * std::log(unit)) * (i % 2 ? std::sin(2 * M_PI * turn) : std::cos(2 * M_PI * turn));
    // The angle is below 8, so its f32 rounding moves z by at most 7 * 2^-22; radius and the rest are a few
    // roundings.
    EXPECT_NEAR(got[i], 0.5 + 2 * z, 2e-5) << i;
  }
}

TEST(FillNormal, IsBoxMullerOverPairsInF64) {
  Array y({37}, DType::f64);
  run_kernel(fill_normal, y.view(), 0, 1, 11, 13);
  std::vector<double> got = y.values();
  for (uint64_t i = 0; i < got.size(); ++i) {
    auto words = philox_block(11, 13, i / 2);
    double unit = (double((uint64_t(words[1]) << 32 | words[0]) >> 11) + 0.5) * 0x1p-53;
    double turn = double((uint64_t(words[3]) << 32 | words[2]) >> 11) * 0x1p-53;
    double z =
        std::sqrt(-2 * std::log(unit)) * (i % 2 ? std::sin(2 * M_PI * turn) : std::cos(2 * M_PI * turn));
    EXPECT_NEAR(got[i], z, 1e-14) << i;
  }
}

TEST(RandomFill, IsAFunctionOfTheIndexAlone) {
  int threads = num_threads();
  for (DType dtype : floating)
    for (bool normal : {false, true}) {
      auto draw = [&](const TensorView& y) {
        normal ? run_kernel(fill_normal, y, 1, 2, 5, 6) : run_kernel(fill_uniform, y, -1, 2, 5, 6);
      };
      Array all({131, 257}, dtype);
      draw(all.view());
      for (int count : {1, 3}) {
        set_num_threads(count);
        for (Layout layout : layouts) {
          Array y({131, 257}, dtype, layout);
          draw(y.view());
          EXPECT_EQ(y.values(), all.values()) << describe({131, 257}, dtype, layout);
          EXPECT_TRUE(y.surroundings_untouched());
        }
      }
      set_num_threads(threads);
      Array start({11}, dtype);
      draw(start.view());
      std::vector<double> want = all.values();
      want.resize(11);
      EXPECT_EQ(start.values(), want) << "the first elements of a longer tensor";
    }
}

TEST(RandomFill, DiffersBySeedAndOffset) {
  Array a({37}, DType::f32), b({37}, DType::f32), c({37}, DType::f32);
  run_kernel(fill_uniform, a.view(), 0, 1, 1, 2);
  run_kernel(fill_uniform, b.view(), 0, 1, 1, 3);
  run_kernel(fill_uniform, c.view(), 0, 1, 2, 2);
  EXPECT_NE(a.values(), b.values());
  EXPECT_NE(a.values(), c.values());
}

TEST(RandomFill, IsTheCpuOnEveryDevice) {
  // Uniform numbers bit for bit. Normal ones are a few roundings of at most 7 stddev apart: the log and the
  // angle's functions may differ by 2 ulp.
  const Stream cpu{Device::cpu()};
  for (DType dtype : floating)
    for (Layout layout : {Layout::contiguous, Layout::offset, Layout::reversed}) {
      Array got({37, 129}, dtype, layout), want({37, 129}, dtype);
      run_kernel(fill_uniform, got.view(), -0.1, 2.3, 17, 19);
      fill_uniform(cpu, want.view(), -0.1, 2.3, 17, 19);
      EXPECT_EQ(got.values(), want.values()) << dtype;
      run_kernel(fill_normal, got.view(), 0.1, 0.7, 17, 19);
      fill_normal(cpu, want.view(), 0.1, 0.7, 17, 19);
      expect_near(got.values(), want.values(), 32 * epsilon_of(dtype), "normal");
    }
}

TEST(FillUniform, StaysInsideTheInterval) {
  for (DType dtype : floating)
    for (auto [low, high] : {std::pair{1.0, 2.0}, {-2.0, -1.0}, {-1.0, 0.0}, {0.0, 1.0}}) {
      Array y({131, 257}, dtype);
      run_kernel(fill_uniform, y.view(), low, high, 3, 4);
      for (double value : y.values()) ASSERT_TRUE(value >= low && value < high) << dtype << " " << value;
    }
}

TEST(FillUniform, HasTheMomentsOfTheDistribution) {
  // n = 2^18 draws of variance 1/12. Six standard errors of the mean, sqrt(1/12n), and of the variance,
  // sqrt(1/180n): a right generator fails once in 10^8 seeds, and the seed is fixed.
  constexpr double n = 1 << 18;
  Array y({1 << 18}, DType::f32);
  run_kernel(fill_uniform, y.view(), 0, 1, 42, 0);
  double mean = 0, variance = 0, lag = 0;
  std::vector<double> values = y.values();
  for (double value : values) mean += value / n;
  for (double value : values) variance += (value - 0.5) * (value - 0.5) / n;
  for (size_t i = 1; i < values.size(); ++i) lag += (values[i] - 0.5) * (values[i - 1] - 0.5) / n;
  EXPECT_NEAR(mean, 0.5, 6 * std::sqrt(1 / (12 * n)));
  EXPECT_NEAR(variance, 1 / 12.0, 6 * std::sqrt(1 / (180 * n)));
  EXPECT_NEAR(lag, 0, 6 / (12 * std::sqrt(n)));
}

TEST(FillNormal, HasTheMomentsOfTheDistribution) {
  // Standard errors of the first four moments about 0: sqrt(1/n), sqrt(2/n), sqrt(15/n), sqrt(96/n). Six of
  // each.
  constexpr double n = 1 << 18;
  Array y({1 << 18}, DType::f32);
  run_kernel(fill_normal, y.view(), 0, 1, 42, 0);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, previous = 0;
  int beyond_three = 0;
  for (double z : y.values()) {
    m1 += z / n, m2 += z * z / n, m3 += z * z * z / n, m4 += z * z * z * z / n, lag += z * previous / n;
    previous = z;
    beyond_three += std::fabs(z) > 3;
  }
  EXPECT_NEAR(m1, 0, 6 * std::sqrt(1 / n));
  EXPECT_NEAR(m2, 1, 6 * std::sqrt(2 / n));
  EXPECT_NEAR(m3, 0, 6 * std::sqrt(15 / n));
  EXPECT_NEAR(m4, 3, 6 * std::sqrt(96 / n));
  EXPECT_NEAR(lag, 0, 6 * std::sqrt(1 / n));  // cosine and sine of a pair are independent
  double expected = n * std::erfc(3 / std::sqrt(2.0));
  EXPECT_NEAR(beyond_three, expected, 6 * std::sqrt(expected));
}

TEST(RandomFill, RejectsWhatIsNoDistribution) {
  Array y({3}, DType::f32), integers({3}, DType::i64);
  expect_error([&] { run_kernel(fill_uniform, y.view(), 2, 1, 0, 0); }, "fill_uniform: no interval [2, 1)");
  expect_error([&] { run_kernel(fill_uniform, y.view(), 0, std::numeric_limits<double>::quiet_NaN(), 0, 0); },
               "fill_uniform: no interval [0, nan)");
  expect_error([&] { run_kernel(fill_normal, y.view(), 0, -1, 0, 0); }, "fill_normal: stddev is -1");
  expect_error([&] { run_kernel(fill_uniform, integers.view(), 0, 1, 0, 0); },
               "fill_uniform: needs a floating dtype, got i64");
}

}  // namespace
}  // namespace reprise::kernels::testing
