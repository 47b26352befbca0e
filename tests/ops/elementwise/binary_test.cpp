// Elementwise functions of two tensors with broadcasting, comparisons, where.
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

struct Function {
  const char* name;
  Tensor (*fn)(const Tensor&, const Tensor&);
  double (*value)(double, double);
};
std::ostream& operator<<(std::ostream& out, const Function& f) { return out << f.name; }

const Function kFunctions[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](double a, double b) { return a + b; }},
    {"sub", [](const Tensor& a, const Tensor& b) { return a - b; }, [](double a, double b) { return a - b; }},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, [](double a, double b) { return a * b; }},
    {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, [](double a, double b) { return a / b; }},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
};

class Binary : public ::testing::TestWithParam<Function> {};

// a (3, 5) with b (3, 5), (5), (3, 1) and (): NumPy's rules by index arithmetic.
TEST_P(Binary, PassesEveryCheckOfAnOp) {
  const Function& f = GetParam();
  for (const Shape& shape : {Shape{3, 5}, Shape{5}, Shape{3, 1}, Shape{}}) {
    int64_t row = shape.size() == 2 ? shape[1] : 0;
    int64_t column = shape.size() > 0 && shape[shape.size() - 1] == 5 ? 1 : 0;
    check_op(OpCase{
        .name = detail::join(f.name, " with ", shape),
        .inputs = {{{3, 5}}, {shape, 1, 2, true}},
        .fn = [&](const TensorList& in) { return f.fn(in[0], in[1]); },
        .reference =
            [&](const TensorList& in) {
              std::vector<double> a = in[0].to_vector<double>(), b = in[1].to_vector<double>();
              for (size_t i = 0; i < a.size(); ++i)
                a[i] = f.value(a[i], b[i / 5 * size_t(row) + i % 5 * size_t(column)]);
              return a;
            },
        // The gradient of div is three roundings long, then a sum whose terms exceed it where they cancel.
        .roundings = 24,
        .empty_inputs = {{{0, 5}}, {{5}, 0.5, 2}},
        .large_inputs = {{{300, 301}}, {{301}, 0.5, 2}},
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Binary, ::testing::ValuesIn(kFunctions),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(BinaryWithANumber, PassesEveryCheckOfAnOp) {
  auto check = [](const char* name, Tensor (*fn)(const Tensor&), double (*value)(double)) {
    check_op(OpCase{.name = name,
                    .inputs = {{{3, 5}, 0.5, 2}},
                    .fn = [=](const TensorList& in) { return fn(in[0]); },
                    .reference =
                        [=](const TensorList& in) {
                          std::vector<double> values = in[0].to_vector<double>();
                          for (double& x : values) x = value(x);
                          return values;
                        }});
  };
  check(
      "x + 3", [](const Tensor& x) { return x + 3.0; }, [](double x) { return x + 3; });
  check(
      "x - 3", [](const Tensor& x) { return x - 3.0; }, [](double x) { return x - 3; });
  check(
      "x * 3", [](const Tensor& x) { return x * 3.0; }, [](double x) { return x * 3; });
  check(
      "x / 3", [](const Tensor& x) { return x / 3.0; }, [](double x) { return x / 3; });
  check(
      "3 + x", [](const Tensor& x) { return 3.0 + x; }, [](double x) { return 3 + x; });
  check(
      "3 - x", [](const Tensor& x) { return 3.0 - x; }, [](double x) { return 3 - x; });
  check(
      "3 * x", [](const Tensor& x) { return 3.0 * x; }, [](double x) { return 3 * x; });
  check(
      "3 / x", [](const Tensor& x) { return 3.0 / x; }, [](double x) { return 3 / x; });
}

TEST(Pow, PassesEveryCheckOfAnOp) {
  for (double exponent : {3.0, 2.5, 1.0, 0.5, 0.0, -2.0})
    check_op(OpCase{.name = detail::join("pow ", exponent),
                    .inputs = {{{3, 5}, 0.5, 2}},
                    .fn = [=](const TensorList& in) { return pow(in[0], exponent); },
                    .reference =
                        [=](const TensorList& in) {
                          std::vector<double> values = in[0].to_vector<double>();
                          for (double& x : values) x = std::pow(x, exponent);
                          return values;
                        },
                    // pow, two products in its gradient, and a power that grows with the exponent.
                    .roundings = 16,
                    .differentiable_twice = exponent != 0});  // x^0: the gradient is a constant
}

TEST(MaximumAndMinimum, ShareTheGradientBetweenEquals) {
  for (auto fn : {maximum, minimum}) {
    Tensor a = Tensor::from<float>({1, 2, 3}, {3}).set_requires_grad();
    Tensor b = Tensor::from<float>({1, 3, 2}, {3}).set_requires_grad();
    fn(a, b).sum().backward();
    EXPECT_EQ(a.grad().to_vector<double>()[0], 0.5);
    EXPECT_EQ(b.grad().to_vector<double>()[0], 0.5);
    EXPECT_EQ(a.grad().to_vector<double>()[1], fn == minimum ? 1 : 0);
  }
}

TEST(Where, PassesEveryCheckOfAnOp) {
  Tensor condition = equal(Tensor::from<float>({1, 0, 0, 1, 1, 0}, {3, 2}), scalar(1));
  check_op(OpCase{.name = "where",
                  .inputs = {{.shape = {3, 2}, .values = condition}, {{3, 2}}, {{2}}},
                  .fn = [](const TensorList& in) { return where(in[0], in[1], in[2]); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> c = in[0].to_vector<double>(), a = in[1].to_vector<double>(),
                                            b = in[2].to_vector<double>();
                        for (size_t i = 0; i < a.size(); ++i) a[i] = c[i] != 0 ? a[i] : b[i % 2];
                        return a;
                      }});
}

TEST(Where, KeepsNanOfTheOtherBranchOutOfTheGradient) {
  Tensor x = Tensor::from<float>({-1, 4}, {2}).set_requires_grad();
  Tensor positive = greater(x, scalar(0));
  where(positive, sqrt(where(positive, x, scalar(1))), scalar(0)).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0.25}));
}

TEST(Comparison, GivesBoolWithoutAGraph) {
  Tensor a = Tensor::from<float>({1, 2, 3}, {3}).set_requires_grad(), b = full({}, 2);
  struct {
    Tensor (*fn)(const Tensor&, const Tensor&);
    std::vector<int64_t> want;
  } cases[] = {{equal, {0, 1, 0}},      {not_equal, {1, 0, 1}}, {less, {1, 0, 0}},
               {less_equal, {1, 1, 0}}, {greater, {0, 0, 1}},   {greater_equal, {0, 1, 1}}};
  for (auto& [fn, want] : cases) {
    Tensor y = fn(a, b);
    EXPECT_EQ(y.dtype(), DType::boolean);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_EQ(y.to_vector<int64_t>(), want);
  }
}

TEST(Binary, MeetsMixedDtypesInTheWiderOneAndReturnsEachItsOwnGradient) {
  Tensor a = Tensor::from<double>({1.5, 2}, {2}).set_requires_grad();
  Tensor b = Tensor::from<float>({3, 4}, {2}).to(DType::bf16).detach();
  b.set_requires_grad();
  Tensor y = a * b;
  EXPECT_EQ(y.dtype(), DType::f64);
  y.sum().backward();
  EXPECT_EQ(a.grad().dtype(), DType::f64);
  EXPECT_EQ(b.grad().dtype(), DType::bf16);
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{1.5, 2}));
}

TEST(Binary, RefusesShapesThatDoNotBroadcastNamingTheOp) {
  expect_error([] { zeros({3, 2}) * zeros({3, 4}); }, {"mul", "(3, 2)", "(3, 4)"});
  expect_error([] { where(zeros({2}), zeros({2}), zeros({2})); }, {"where", "bool", "f32"});
  Tensor condition = zeros({2}, DType::boolean);
  expect_error([&] { where(condition, zeros({2}), zeros({2}, DType::f64)); }, {"where", "f32", "f64"});
}

}  // namespace
}  // namespace reprise
