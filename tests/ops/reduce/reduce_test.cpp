// Sums, means, variances, extrema over dimensions, against loops.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/reduce/var.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::OpInput;

using Reducer = Tensor (*)(const Tensor&, const Dims&, bool);
using Fold = double (*)(const std::vector<double>&);

double sum_of(const std::vector<double>& values) {
  double total = 0;
  for (double x : values) total += x;
  return total;
}
double mean_of(const std::vector<double>& values) { return sum_of(values) / double(values.size()); }
double variance_of(const std::vector<double>& values) {
  double centre = mean_of(values), total = 0;
  for (double x : values) total += (x - centre) * (x - centre);
  return total / double(values.size());
}
double max_of(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }
double min_of(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

double norm_of(const std::vector<double>& values) {
  double total = 0;
  for (double x : values) total += x * x;
  return std::sqrt(total);
}
double stddev_of(const std::vector<double>& values) {
  return std::sqrt(variance_of(values) * double(values.size()) / double(values.size() - 1));
}
double logsumexp_of(const std::vector<double>& values) {
  double total = 0;
  for (double x : values) total += std::exp(x);
  return std::log(total);
}
Tensor unbiased(const Tensor& x, const Dims& dims, bool keep) { return stddev(x, dims, 1, keep); }

struct Reduction {
  const char* name;
  Reducer fn;
  Fold fold;
  double roundings;
};
std::ostream& operator<<(std::ostream& out, const Reduction& f) { return out << f.name; }

// In half types the mean scales a rounded sum, and the variance squares rounded differences.
const Reduction kReductions[] = {{"sum", sum, sum_of, 8},
                                 {"mean", mean, mean_of, 8},
                                 {"variance", variance, variance_of, 16},
                                 {"max", max, max_of, 4},
                                 {"min", min, min_of, 4},
                                 {"norm", norm, norm_of, 8},
                                 {"stddev", unbiased, stddev_of, 16},
                                 {"logsumexp", logsumexp, logsumexp_of, 8}};

// The reference for x (2, 3, 5): groups elements by what is left of their index.
std::vector<double> fold_over(const Tensor& x, const Dims& dims, Fold fold) {
  bool gone[3] = {dims.empty(), dims.empty(), dims.empty()};
  for (int64_t dim : dims) gone[dim < 0 ? dim + 3 : dim] = true;
  int64_t kept[3], count = 1;
  for (int d = 0; d < 3; ++d) {
    kept[d] = gone[d] ? 1 : x.shape()[d];
    count *= kept[d];
  }
  std::vector<std::vector<double>> groups(static_cast<size_t>(count));
  std::vector<double> values = x.to_vector<double>();
  for (int64_t i = 0; i < int64_t(values.size()); ++i) {
    int64_t index[3] = {i / 15, i / 5 % 3, i % 5}, at = 0;
    for (int d = 0; d < 3; ++d) at = at * kept[d] + (gone[d] ? 0 : index[d]);
    groups[size_t(at)].push_back(values[size_t(i)]);
  }
  std::vector<double> out;
  for (const auto& group : groups) out.push_back(fold(group));
  return out;
}

class Reduce : public ::testing::TestWithParam<Reduction> {};

TEST_P(Reduce, PassesEveryCheckOfAnOpOverAnyDimensions) {
  const Reduction& r = GetParam();
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{-1}, Dims{0, 2}})
    for (bool keep : {false, true})
      check_op(OpCase{.name = detail::join(r.name, " over ", dims, keep ? " kept" : ""),
                      .inputs = {{{2, 3, 5}}},
                      .fn = [&](const TensorList& in) { return r.fn(in[0], dims, keep); },
                      .reference = [&](const TensorList& in) { return fold_over(in[0], dims, r.fold); },
                      .roundings = r.roundings});
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, ::testing::ValuesIn(kReductions),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(Sum, OfLargeTensorsIsExactAcrossThreadsAndOfNothingIsZero) {
  check_op(OpCase{.name = "sum",
                  .inputs = {{{2, 3}}},
                  .fn = [](const TensorList& in) { return sum(in[0], {0}); },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        return std::vector<double>{x[0] + x[3], x[1] + x[4], x[2] + x[5]};
                      },
                  .empty_inputs = {{{0, 3}}},
                  .large_inputs = {{{701, 307}}}});
}

TEST(Sum, CountsIntegersAndBoolsInI64) {
  Tensor hits = less(arange(300), scalar(200, DType::i64));
  EXPECT_EQ(sum(hits).dtype(), DType::i64);
  EXPECT_EQ(sum(hits).item(), 200);
}

TEST(Mean, OfManyHalfNumbersNeitherOverflowsNorStalls) {
  EXPECT_EQ(mean(ones({100'000}, DType::f16)).item(), 1);
  EXPECT_EQ(mean(ones({100'000}, DType::bf16)).item(), 1);
  EXPECT_EQ(variance(full({100'000}, 300, DType::f16)).item(), 0);
}

TEST(Max, SharesTheGradientBetweenEquals) {
  Tensor x = Tensor::from<float>({1, 3, 3, 0}, {4}).set_requires_grad();
  max(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0.5, 0.5, 0}));
}

TEST(Argmax, FindsTheFirstLargestOfEachRow) {
  Tensor x = Tensor::from<float>({1, 5, 5, 9, 2, 3}, {2, 3});
  Tensor y = argmax(x, -1);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
}

TEST(SumTo, PassesEveryCheckOfAnOp) {
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{3, 5}, Shape{3, 1}, Shape{1, 1, 5}, Shape{1}, Shape{}})
    check_op(OpCase{.name = detail::join("sum_to ", shape),
                    .inputs = {{{2, 3, 5}}},
                    .fn = [&](const TensorList& in) { return sum_to(in[0] * 1.0, shape); },
                    .reference =
                        [&](const TensorList& in) {
                          Dims gone;
                          for (int d = 0; d < 3; ++d)
                            if (const int own = d - 3 + int(shape.size()); own < 0 || shape[own] == 1)
                              gone.push_back(d);
                          return gone.empty() ? in[0].to_vector<double>() : fold_over(in[0], gone, sum_of);
                        }});
}

TEST(SumTo, RefusesAShapeThatDoesNotBroadcastToTheTensor) {
  expect_error([] { sum_to(zeros({3, 4}), {4, 3}); }, {"sum_to", "(3, 4)", "(4, 3)"});
  expect_error([] { sum_to(zeros({3}), {1, 3}); }, {"sum_to", "(3,)", "(1, 3)"});
}

TEST(Reduce, NamesTheOpInErrors) {
  expect_error([] { sum(zeros({2, 2}), {2}); }, {"sum"});
  expect_error([] { mean(arange(3)); }, {"mean", "i64"});
}

TEST(Norm, HasTheGradientZeroAtZero) {
  for (const auto& fn : {std::function([](const Tensor& x) { return norm(x); }),
                         std::function([](const Tensor& x) { return stddev(x); })}) {
    const Tensor x = Tensor::from<float>({0, 0, 0}, {3}).set_requires_grad();
    fn(x).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(3, 0.0));
  }
}

TEST(Stddev, TakesItsCorrection) {
  const Tensor x = Tensor::from<double>({1, 2, 3, 6}, {4});  // squares of distances from 3: 4, 1, 0, 9
  EXPECT_NEAR(stddev(x, {}, 0).item(), std::sqrt(14.0 / 4), 1e-15);
  EXPECT_NEAR(stddev(x).item(), std::sqrt(14.0 / 3), 1e-15);
  EXPECT_NEAR(stddev(x, {}, 2).item(), std::sqrt(14.0 / 2), 1e-15);
  EXPECT_TRUE(std::isnan(stddev(Tensor::from<double>({1}, {1})).item())) << "of one number, as PyTorch's";
}

// By hand, as torch.var has it: 1 is its default correction.
TEST(Var, IsUnbiasedUnlessItIsAskedForAnother) {
  const Tensor x = Tensor::from<double>({1, 2, 3, 6}, {4});  // squares of distances from 3: 4, 1, 0, 9
  EXPECT_NEAR(var(x).item(), 14.0 / 3, 1e-15);
  EXPECT_NEAR(var(x, {}, 0).item(), variance(x).item(), 1e-15);
  EXPECT_NEAR(var(x, {0}, 2).item(), 7, 1e-15);
  EXPECT_TRUE(std::isinf(var(x, {}, 4).item()));
  EXPECT_TRUE(std::isnan(var(Tensor::from<double>({1}, {1})).item()));
  EXPECT_TRUE(std::isnan(var(zeros({0})).item()));
  EXPECT_EQ(var(zeros({2, 3}, DType::f16), {1}, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(var(zeros({2, 3}, DType::f16), {1}).dtype(), DType::f16);
  expect_error([] { var(arange(3)); }, {"var: needs a floating dtype, got i64"});
  for (int64_t correction : {0, 1, 2})
    check_op(OpCase{.name = detail::join("var with correction ", correction),
                    .inputs = {{{3, 5}}},
                    .fn = [=](const TensorList& in) { return var(in[0], {1}, correction); },
                    .reference =
                        [=](const TensorList& in) {
                          const std::vector<double> numbers = in[0].to_vector<double>();
                          std::vector<double> y;
                          for (size_t row = 0; row < 3; ++row) {
                            double total = 0, squares = 0;
                            for (size_t i = 0; i < 5; ++i) total += numbers[row * 5 + i];
                            for (size_t i = 0; i < 5; ++i)
                              squares += std::pow(numbers[row * 5 + i] - total / 5, 2);
                            y.push_back(squares / double(5 - correction));
                          }
                          return y;
                        },
                    .roundings = 24});
}

// As in PyTorch: where all numbers are -inf no gradient is NaN.
TEST(LogSumExp, HasAGradientAtInfinities) {
  auto gradient = [](std::vector<double> numbers) {
    const Tensor x = Tensor::from(numbers, {int64_t(numbers.size())}).set_requires_grad();
    logsumexp(x).backward();
    return x.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient({-INFINITY, 3}), (std::vector<double>{0, 1}));
  EXPECT_EQ(gradient({-INFINITY, -INFINITY}), (std::vector<double>{0, 0}));
  EXPECT_EQ(gradient({INFINITY, 3})[1], 0);
  for (const double share : gradient({NAN, 3})) EXPECT_TRUE(std::isnan(share)) << share;
  const Tensor x = Tensor::from<double>({INFINITY, 3}, {2}).set_requires_grad();
  EXPECT_EQ(grad({logsumexp(x)}, {x}, {}, {.create_graph = true})[0].to_vector<double>()[1], 0);
}

TEST(LogSumExp, NeitherOverflowsNorLosesInfinities) {
  auto of = [](std::vector<float> numbers) {
    return logsumexp(Tensor::from(numbers, {int64_t(numbers.size())})).item();
  };
  EXPECT_NEAR(of({1000, 1000}), 1000 + std::log(2.0), 1e-4);
  EXPECT_NEAR(of({-1000, -1000}), -1000 + std::log(2.0), 1e-4);
  EXPECT_EQ(of({-INFINITY, 3}), 3);
  EXPECT_EQ(of({-INFINITY, -INFINITY}), -INFINITY);
  EXPECT_EQ(of({INFINITY, 3}), INFINITY);
  EXPECT_TRUE(std::isnan(of({NAN, 3})));
  EXPECT_EQ(of({}), -INFINITY);
  const Tensor none = logsumexp(zeros({2, 0}, DType::f64), {1}, true);
  EXPECT_EQ(none.shape(), (Shape{2, 1}));
  EXPECT_EQ(none.to_vector<double>(), std::vector<double>(2, -INFINITY));
  EXPECT_EQ(logsumexp(zeros({0, 2}), {1}).shape(), Shape{0});
}

}  // namespace
}  // namespace reprise
