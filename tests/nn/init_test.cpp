// Initial values: the moments and bounds of their distributions.
#include "reprise/nn/init.h"

#include <cmath>

#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::same_bits;

struct Moments {
  double mean = 0, deviation = 0, kurtosis = 0, largest = 0;
};

Moments moments_of(const Tensor& x) {
  std::vector<double> v = x.to_vector<double>();
  Moments m;
  double fourth = 0;
  for (double value : v) {
    m.mean += value / double(v.size());
    m.deviation += value * value / double(v.size());
    fourth += std::pow(value, 4) / double(v.size());
    m.largest = std::max(m.largest, std::fabs(value));
  }
  m.kurtosis = fourth / (m.deviation * m.deviation);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

const Shape kShape = {48, 32, 3, 3};  // 13,824 numbers: fan in 288, out 432

// Deviation `want`; `kurtosis` tells a normal distribution (3) from a uniform (1.8) and a cut-off one (2.36).
void expect_moments(const Tensor& x, double want, double kurtosis) {
  ASSERT_EQ(x.shape(), kShape);
  const Moments m = moments_of(x);
  const double count = double(x.numel());
  EXPECT_LT(std::fabs(m.mean), 5 * want / std::sqrt(count));  // 5 deviations of the estimates
  EXPECT_NEAR(m.deviation / want, 1, 5 / std::sqrt(2 * count));
  EXPECT_NEAR(m.kurtosis, kurtosis, 5 * std::sqrt(24 / count));
}

TEST(Init, KaimingIsNormalByFanOut) {
  Generator generator(3);
  expect_moments(kaiming_init(kShape, {}, &generator), std::sqrt(2.0 / 432), 3);
}

TEST(Init, XavierIsUniformByBothFans) {
  Generator generator(3);
  Tensor x = xavier_init(kShape, {}, &generator);
  expect_moments(x, std::sqrt(2.0 / (288 + 432)), 1.8);
  EXPECT_LE(moments_of(x).largest, std::sqrt(6.0 / (288 + 432)));
}

TEST(Init, LecunIsNormalByFanInAndCutOffAtTwoDeviations) {
  Generator generator(3), again(3);
  Tensor x = lecun_init(kShape, {}, &generator);
  // Of a normal number between -2 and 2, by numeric integration: kurtosis 2.366.
  expect_moments(x, 1 / std::sqrt(288.0), 2.366);
  const double bound = 2 / (0.8796256610342398 * std::sqrt(288.0));
  EXPECT_LE(moments_of(x).largest, bound * (1 + 1e-6));  // f32
  EXPECT_GT(moments_of(x).largest, 0.97 * bound);
  EXPECT_TRUE(same_bits(lecun_init(kShape, {}, &again), x));
}

TEST(Init, FansCountTheWindow) {
  EXPECT_EQ(fans_of({5, 3}).in, 3);
  EXPECT_EQ(fans_of({5, 3}).out, 5);
  EXPECT_EQ(fans_of({5, 3, 2, 7}).in, 42);
  EXPECT_EQ(fans_of({5, 3, 2, 7}).out, 70);
  expect_error([] { fans_of({5}); }, {"fans_of", "(5,)"});
}

}  // namespace
}  // namespace reprise::nn
