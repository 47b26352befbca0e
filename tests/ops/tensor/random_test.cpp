// Random whole numbers, orders and choices: their ranges, their frequencies, their seeds.
#include "reprise/autograd/ops/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;
using Numbers = std::vector<int64_t>;

// Pearson's statistic of counts beside the expected ones.
double chi_squared(const std::vector<double>& counts, const std::vector<double>& expected) {
  double total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double off = counts[i] - expected[i];
    total += off * off / expected[i];
  }
  return total;
}

std::vector<double> counts_of(const Numbers& values, int64_t low, int64_t classes) {
  std::vector<double> counts(size_t(classes), 0);
  for (int64_t value : values) counts.at(size_t(value - low)) += 1;  // throws outside of the range
  return counts;
}

TEST(Randint, IsUniformInItsRange) {
  Generator generator(7);
  const Numbers values = randint(-3, 8, {11000}, test_device(), &generator).to_vector<int64_t>();
  // 10 degrees of freedom: more than 29.6 in one of a thousand.
  EXPECT_LT(chi_squared(counts_of(values, -3, 11), std::vector<double>(11, 1000)), 29.6);
  EXPECT_EQ(randint(5, 6, {2, 3}, test_device()).to_vector<int64_t>(), Numbers(6, 5));
  EXPECT_EQ(randint(0, 2, {4}, test_device()).dtype(), DType::i64);
  const Numbers wide =
      randint(-(int64_t(1) << 32), int64_t(1) << 32, {2000}, test_device(), &generator).to_vector<int64_t>();
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), -(int64_t(1) << 31));
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), int64_t(1) << 31);
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t value) { return value & 1; }));
  Generator a(2), b(2);
  EXPECT_TRUE(same_bits(randint(9, {50}, test_device(), &a), randint(0, 9, {50}, test_device(), &b)));
  EXPECT_EQ(randint(1, {}).shape(), Shape{});
  expect_error([] { randint(0, {2}); }, "randint: needs low < high", "0 and 0");
  expect_error([] { randint(3, 3, {1}); }, "randint: needs low < high", "3 and 3");
  expect_error([] { randint(0, int64_t(1) << 33, {1}); }, "within 2^32");
}

TEST(Randint, HasTheDtypeThatIsAskedFor) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    SCOPED_TRACE(detail::join(dtype));
    Generator a(2), b(2), c(2), d(2);
    const Tensor want = randint(0, 100, {50}, test_device(), &a),
                 of_dtype = randint(0, 100, {50}, dtype, test_device(), &b);
    EXPECT_EQ(of_dtype.dtype(), dtype);
    EXPECT_EQ(of_dtype.to_vector<int64_t>(), want.to_vector<int64_t>());
    const Tensor like = zeros({50}, dtype, test_device());
    EXPECT_TRUE(same_bits(randint_like(like, 100, &c), of_dtype));
    EXPECT_TRUE(same_bits(randint_like(like, 0, 100, &d), of_dtype));
  }
  EXPECT_EQ(randint(3, {2, 2}, DType::u8).dtype(), DType::u8);
  expect_error([] { randint(0, 257, {1}, DType::u8); }, "randint: 256 does not fit u8");
  expect_error([] { randint_like(zeros({1}, DType::u8), -1, 3); }, "randint: -1 does not fit u8");
  expect_error([] { randint_like(Tensor(), 3); }, "randint_like: tensor argument 0 is undefined");
  for (const auto& of : {std::pair{DType::bf16, 256}, {DType::f16, 2048}, {DType::f32, 1 << 24}}) {
    const DType dtype = of.first;
    const int64_t last = of.second;
    EXPECT_EQ(randint(last, last + 1, {1}, dtype, test_device()).item(), last);
    EXPECT_EQ(randint(-last, 1 - last, {1}, dtype, test_device()).item(), -last);
    expect_error([&] { randint(0, last + 2, {1}, dtype); }, "does not have all whole numbers up to");
    expect_error([&] { randint(-last - 1, 0, {1}, dtype); }, "does not have all whole numbers up to");
  }
  expect_error([] { randint(0, std::numeric_limits<int64_t>::max(), {1}, DType::i64); },
               "within 2^32 of 0, got 0 and 9223372036854775807");
}

TEST(Randperm, IsEachOrderAsOften) {
  Generator generator(7);
  std::vector<double> counts(6, 0);
  for (int i = 0; i < 1200; ++i) {
    const Numbers order = randperm(3, test_device(), &generator).to_vector<int64_t>();
    Numbers sorted = order;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, (Numbers{0, 1, 2}));
    counts[size_t(order[0] * 2 + (order[1] > order[2]))] += 1;
  }
  EXPECT_LT(chi_squared(counts, std::vector<double>(6, 200)), 20.5);  // 5 degrees, one of a thousand
  Numbers all(1000);
  std::iota(all.begin(), all.end(), 0);
  Numbers large = randperm(1000, test_device(), &generator).to_vector<int64_t>();
  EXPECT_NE(large, all);
  std::sort(large.begin(), large.end());
  EXPECT_EQ(large, all);
  EXPECT_EQ(randperm(0, test_device()).numel(), 0);
  expect_error([] { randperm(-1); }, "randperm: count must be at least 0, got -1");
}

TEST(Bernoulli, IsOneAsOftenAsItsProbability) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Generator generator(3);
  const Tensor p = Tensor::from<float>({0, 0.25, 0.9f, 1, 2, -1, float(nan)}, {1, 7}).to(test_device());
  const Tensor bits = bernoulli(expand(p, {4000, 7}), &generator);
  EXPECT_EQ(bits.dtype(), DType::f32);
  const std::vector<double> means = mean(bits, {0}).to_vector<double>();
  EXPECT_EQ(means[0], 0);
  EXPECT_NEAR(means[1], 0.25, 4 * std::sqrt(0.25 * 0.75 / 4000));
  EXPECT_NEAR(means[2], 0.9, 4 * std::sqrt(0.9 * 0.1 / 4000));
  EXPECT_EQ(means[3], 1);
  EXPECT_EQ(means[4], 1);
  EXPECT_EQ(means[5], 0);
  EXPECT_EQ(means[6], 0);
  expect_error([] { bernoulli(zeros({2}, DType::i64)); }, "bernoulli", "i64");
  expect_error([] { randn({2}, DType::i64); }, "randn: needs a floating dtype", "i64");
  expect_error([] { rand({2}, DType::boolean); }, "rand: needs a floating dtype", "bool");
}

TEST(Multinomial, DrawsClassesAsOftenAsTheirWeights) {
  Generator generator(11);
  const Tensor weights = Tensor::from<float>({1, 0, 3, 4, 8, 0, 8, 0}, {2, 4}).to(test_device());
  const Tensor drawn = multinomial(weights, 4000, {.replacement = true, .generator = &generator});
  ASSERT_EQ(drawn.shape(), (Shape{2, 4000}));
  const auto first = counts_of(drawn.select(0, 0).to_vector<int64_t>(), 0, 4),
             second = counts_of(drawn.select(0, 1).to_vector<int64_t>(), 0, 4);
  EXPECT_EQ(first[1], 0);
  EXPECT_LT(chi_squared({first[0], first[2], first[3]}, {500, 1500, 2000}),
            13.8);  // 2 degrees, one of a thousand
  EXPECT_EQ(second[1] + second[3], 0);
  EXPECT_LT(chi_squared({second[0], second[2]}, {2000, 2000}), 10.8);
}

// Without replacement the first is drawn by its weight, the second among those left by theirs.
TEST(Multinomial, WithoutReplacementTakesEachOnce) {
  Generator generator(11);
  const Tensor weights = expand(Tensor::from<double>({1, 2, 0, 3}, {1, 4}).to(test_device()), {6000, 4});
  const Numbers drawn = multinomial(weights, 2, {.generator = &generator}).to_vector<int64_t>();
  std::vector<double> counts(9, 0), expected;
  const double w[3] = {1, 2, 3};
  for (size_t i = 0; i < drawn.size(); i += 2) {
    ASSERT_TRUE(drawn[i] != 2 && drawn[i + 1] != 2 && drawn[i] != drawn[i + 1]);
    auto place = [](int64_t c) { return c == 3 ? 2 : c; };
    counts[size_t(place(drawn[i]) * 3 + place(drawn[i + 1]))] += 1;
  }
  std::vector<double> seen;
  for (size_t a = 0; a < 3; ++a)
    for (size_t b = 0; b < 3; ++b)
      if (a != b) {
        seen.push_back(counts[a * 3 + b]);
        expected.push_back(6000 * w[a] / 6 * w[b] / (6 - w[a]));
      }
  EXPECT_LT(chi_squared(seen, expected), 20.5);  // 5 degrees, one of a thousand
}

TEST(Multinomial, RefusesWhatAreNoWeights) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  auto draw = [](const std::vector<float>& weights, int64_t count, bool replacement) {
    multinomial(Tensor::from<float>(weights, {int64_t(weights.size())}).to(test_device()), count,
                {.replacement = replacement});
  };
  expect_error([&] { draw({1, -1}, 1, true); }, "multinomial: weights must be finite and at least 0");
  expect_error([&] { draw({1, std::nanf("")}, 1, true); }, "finite");
  expect_error([&] { draw({1, infinity}, 1, true); }, "finite");
  expect_error([&] { draw({0, 0}, 1, true); }, "every row needs 1 positive weights");
  expect_error([&] { draw({1, 0, 2}, 3, false); }, "every row needs 3 positive weights");
  expect_error([&] { draw({1}, 0, false); }, "count must be at least 1, got 0");
  expect_error([&] { multinomial(scalar(1), 1); }, "(..., C)");
  draw({1, 0, 2}, 2, false);
}

TEST(RandomChoices, AreThoseOfTheirSeedOnEveryDevice) {
  auto all = [](Device device) {
    Generator generator(5);
    const Tensor p = full({50}, 0.5, DType::f32, device);
    return TensorList{randint(0, 1000, {50}, device, &generator), randperm(50, device, &generator),
                      bernoulli(p, &generator).to(DType::i64), multinomial(p, 20, {.generator = &generator})};
  };
  const TensorList here = all(test_device()), again = all(test_device()), on_cpu = all({});
  EXPECT_TRUE(same_bits(here, again));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(here[i].to(Device()), on_cpu[i])) << i;
}

}  // namespace
}  // namespace reprise
