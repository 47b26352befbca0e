// Elementwise ops against libm in f64, over dtypes, ranks and layouts.
// slow in tsan
#include "reprise/kernels/elementwise/elementwise.h"

#include <functional>

#include "reprise/core/parallel.h"
#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/strided.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr DType floating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct UnaryCase {
  const char* name;
  UnaryOp op;
  std::function<double(double)> f;
  bool differentiable = true;
  double low = -4;  // inputs are drawn from [low, 4)
};

const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases = {
      {"neg", UnaryOp::neg, [](double x) { return -x; }},
      {"abs", UnaryOp::abs, [](double x) { return std::fabs(x); }},
      {"square", UnaryOp::square, [](double x) { return x * x; }},
      {"reciprocal", UnaryOp::reciprocal, [](double x) { return 1 / x; }, true, 0.25},
      {"sqrt", UnaryOp::sqrt, [](double x) { return std::sqrt(x); }, true, 0.25},
      {"rsqrt", UnaryOp::rsqrt, [](double x) { return 1 / std::sqrt(x); }, true, 0.25},
      {"exp", UnaryOp::exp, [](double x) { return std::exp(x); }},
      {"log", UnaryOp::log, [](double x) { return std::log(x); }, true, 0.25},
      {"sin", UnaryOp::sin, [](double x) { return std::sin(x); }},
      {"cos", UnaryOp::cos, [](double x) { return std::cos(x); }},
      {"tanh", UnaryOp::tanh, [](double x) { return std::tanh(x); }},
      {"sigmoid", UnaryOp::sigmoid, logistic},
      {"erf", UnaryOp::erf, [](double x) { return std::erf(x); }},
      {"relu", UnaryOp::relu, [](double x) { return std::max(x, 0.0); }},
      {"gelu", UnaryOp::gelu, [](double x) { return x * normal_cdf(x); }},
      {"gelu_tanh", UnaryOp::gelu_tanh, gelu_tanh},
      {"silu", UnaryOp::silu, [](double x) { return x * logistic(x); }},
      {"huber", UnaryOp::huber, [](double x) { return std::fabs(x) < 1 ? x * x / 2 : std::fabs(x) - 0.5; }},
      {"floor", UnaryOp::floor, [](double x) { return std::floor(x); }},
      {"ceil", UnaryOp::ceil, [](double x) { return std::ceil(x); }},
      {"round", UnaryOp::round, [](double x) { return std::nearbyint(x); }},
      {"trunc", UnaryOp::trunc, [](double x) { return std::trunc(x); }},
      {"sign", UnaryOp::sign, [](double x) { return double(x > 0) - double(x < 0); }},
      {"log1p", UnaryOp::log1p, [](double x) { return std::log1p(x); }, true, -0.75},
      {"expm1", UnaryOp::expm1, [](double x) { return std::expm1(x); }},
      {"softplus", UnaryOp::softplus, [](double x) { return std::log1p(std::exp(x)); }},
      {"is_finite", UnaryOp::is_finite, [](double x) { return std::isfinite(x); }, false},
  };
  return cases;
}

/// In f32 the polynomials are good to a few roundings, and so are the formulas made of them; halves are
/// rounded once more; f64 is libm's, with a few roundings from the formulas.
double tolerance_of(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 ? 8 * epsilon_of(dtype) : epsilon_of(dtype);
}

TEST(Elementwise, UnaryMatchesLibm) {
  for (const UnaryCase& c : unary_cases())
    for (DType dtype : floating)
      for (const Shape& shape : small_shapes())
        for (Layout layout : layouts) {
          Array x(shape, dtype, layout), y(shape, c.differentiable ? dtype : DType::boolean, Layout::rotated);
          x.randomize(1, c.low);
          run_kernel(unary, c.op, x.view(), y.view());
          std::vector<double> want = x.values();
          for (double& value : want) value = c.f(value);
          expect_near(y.values(), want, tolerance_of(dtype), c.name + (" " + describe(shape, dtype, layout)));
          EXPECT_TRUE(y.surroundings_untouched()) << c.name << " " << describe(shape, dtype, layout);
        }
}

TEST(Elementwise, UnaryBackwardMatchesCentralDifferences) {
  // f''' of every case is below 100 on the inputs, so at h = 1e-4 the truncation error h^2 f''' / 6 is below
  // 2e-7, and the rounding error eps f / h below 2e-11.
  for (const UnaryCase& c : unary_cases()) {
    if (!c.differentiable) continue;
    for (Layout layout : layouts) {
      Array x({3, 5, 7}, DType::f64, layout), dy({3, 5, 7}, DType::f64, Layout::reversed),
          dx({3, 5, 7}, DType::f64);
      x.randomize(2, c.low);
      dy.randomize(3);
      run_kernel(unary_backward, c.op, dy.view(), x.view(), dx.view());
      std::vector<double> want = x.values(), weights = dy.values();
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = weights[i] * (c.f(want[i] + 1e-4) - c.f(want[i] - 1e-4)) / 2e-4;
      expect_near(dx.values(), want, 1e-6, std::string(c.name) + " gradient");
    }
  }
}

TEST(Elementwise, UnaryBackwardInNarrowTypesMatchesF64) {
  for (const UnaryCase& c : unary_cases()) {
    if (!c.differentiable) continue;
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      Array x({37}, dtype, Layout::offset), dy({37}, dtype), dx({37}, dtype, Layout::stepped);
      Array x64({37}, DType::f64), dy64({37}, DType::f64), dx64({37}, DType::f64);
      x.randomize(4, c.low), dy.randomize(5, -1, 1);
      std::vector<double> xs = x.values(), dys = dy.values();
      x64.fill_with([&](int64_t i) { return xs[size_t(i)]; });
      dy64.fill_with([&](int64_t i) { return dys[size_t(i)]; });
      run_kernel(unary_backward, c.op, dy.view(), x.view(), dx.view());
      run_kernel(unary_backward, c.op, dy64.view(), x64.view(), dx64.view());
      expect_near(dx.values(), dx64.values(), tolerance_of(dtype), std::string(c.name) + " gradient");
    }
  }
}

struct BinaryCase {
  const char* name;
  BinaryOp op;
  std::function<double(double, double)> f;
  bool integers = true;
  double low = -4;  // the first operand is drawn from [low, 4)
};

const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases = {
      {"add", BinaryOp::add, [](double a, double b) { return a + b; }},
      {"sub", BinaryOp::sub, [](double a, double b) { return a - b; }},
      {"mul", BinaryOp::mul, [](double a, double b) { return a * b; }},
      {"div", BinaryOp::div, [](double a, double b) { return a / b; }, false},
      {"pow", BinaryOp::pow, [](double a, double b) { return std::pow(a, b); }, false, 0.25},
      {"fmod", BinaryOp::fmod, [](double a, double b) { return b == 0 ? 0 : std::fmod(a, b); }},
      {"remainder", BinaryOp::remainder,
       [](double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }},
      {"maximum", BinaryOp::maximum, [](double a, double b) { return std::max(a, b); }},
      {"minimum", BinaryOp::minimum, [](double a, double b) { return std::min(a, b); }},
      {"bce_with_logits", BinaryOp::bce_with_logits,
       [](double x, double t) { return std::log1p(std::exp(x)) - t * x; }, false},
      {"equal", BinaryOp::equal, [](double a, double b) { return a == b; }},
      {"not_equal", BinaryOp::not_equal, [](double a, double b) { return a != b; }},
      {"less", BinaryOp::less, [](double a, double b) { return a < b; }},
      {"less_equal", BinaryOp::less_equal, [](double a, double b) { return a <= b; }},
      {"greater", BinaryOp::greater, [](double a, double b) { return a > b; }},
      {"greater_equal", BinaryOp::greater_equal, [](double a, double b) { return a >= b; }},
  };
  return cases;
}

TEST(Elementwise, BinaryMatchesF64) {
  for (const BinaryCase& c : binary_cases())
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32}) {
      if (!is_floating(dtype) && !c.integers) continue;
      for (const Shape& shape : small_shapes())
        for (Layout layout : layouts) {
          Array a(shape, dtype, layout), b(shape, dtype, Layout::reversed);
          Array y(shape, c.op >= BinaryOp::equal ? DType::boolean : dtype, layout);
          a.randomize(1, c.low).fill_with(
              [&](int64_t i) { return i % 3 ? element(a.view(), offset_of(a.view(), i)) : 2.0; });
          b.randomize(2).fill_with(
              [&](int64_t i) { return i % 4 ? element(b.view(), offset_of(b.view(), i)) : 2.0; });
          run_kernel(binary, c.op, a.view(), b.view(), y.view());
          std::vector<double> want = a.values(), second = b.values();
          for (size_t i = 0; i < want.size(); ++i) want[i] = c.f(want[i], second[i]);
          expect_near(y.values(), want, tolerance_of(dtype), c.name + (" " + describe(shape, dtype, layout)));
          EXPECT_TRUE(y.surroundings_untouched()) << c.name << " " << describe(shape, dtype, layout);
        }
    }
}

TEST(Elementwise, BroadcastsByStrideZero) {
  Array a({3, 5, 7}, DType::f32), row({7}, DType::f32), column({5, 1}, DType::f32), y({3, 5, 7}, DType::f32);
  a.randomize(1), row.randomize(2), column.randomize(3);
  for (const TensorView& b : {expand(row.view(), {3, 5, 7}), expand(column.view(), {3, 5, 7})}) {
    run_kernel(binary, BinaryOp::mul, a.view(), b, y.view());
    std::vector<double> want = a.values(), second = values_of(b);
    for (size_t i = 0; i < want.size(); ++i) want[i] = double(float(want[i] * second[i]));
    EXPECT_EQ(y.values(), want);
  }
}

/// The elements of `base` between `first` and `first + width` of each row.
TensorView columns(const Array& base, int64_t first, int64_t width) {
  return slice(base.view(), -1, first, first + width);
}

TEST(Elementwise, ReadsRowsColumnsAndNumbersForAnyOperand) {
  // Rows of 40 and 37: whole packs of any dtype, and not.
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8})
    for (int64_t width : {40, 37}) {
      const Shape shape = {3, 6, width};
      Array full(shape, dtype), row({width}, dtype), column({6, 1}, dtype), plane({6, width}, dtype),
          number({}, dtype), y(shape, dtype);
      uint64_t seed = 0;
      for (Array* x : {&full, &row, &column, &plane, &number}) x->randomize(++seed, 0, 100);
      const TensorView views[] = {full.view(), expand(row.view(), shape), expand(column.view(), shape),
                                  expand(plane.view(), shape), expand(number.view(), shape)};
      for (const TensorView& a : views)
        for (const TensorView& b : views) {
          run_kernel(binary, BinaryOp::maximum, a, b, y.view());
          std::vector<double> want = values_of(a), second = values_of(b);
          for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i], second[i]);
          EXPECT_EQ(y.values(), want)
              << dtype << " " << width << ", strides " << a.strides << " and " << b.strides;
          EXPECT_TRUE(y.surroundings_untouched());
        }
    }
}

TEST(Elementwise, WorksOnPartsOfRows) {
  // Starts and gaps that are whole packs, and such that are not, on each side.
  for (DType dtype : {DType::f32, DType::f16, DType::u8})
    for (int64_t from : {0, 16, 1})
      for (int64_t to : {0, 32, 3})
        for (int64_t stored : {64, 66, 67})
          for (int64_t width : {16, 24, 29}) {
            Array x({2, 5, 64}, dtype), y({2, 5, stored}, dtype);
            x.randomize(1, 0, 200), y.fill_with([](int64_t) { return 7; });
            std::vector<double> want = y.values(), xs = x.values();
            for (int64_t i = 0; i < 10; ++i)
              for (int64_t j = 0; j < width; ++j)
                want[size_t(i * stored + to + j)] = xs[size_t(i * 64 + from + j)];
            run_kernel(unary, UnaryOp::abs, columns(x, from, width), columns(y, to, width));
            ASSERT_EQ(y.values(), want)
                << dtype << " from " << from << " to " << to << " of " << stored << ", " << width;
          }
}

TEST(Elementwise, HandlesEverySizeAroundPacksAndBlocks) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::u8})
    for (int64_t edge : {9, kMapPacks, 2 * kMapPacks, 4 * kMapPacks, 8 * kMapPacks, 16 * kMapPacks})
      for (int64_t n = edge - 9; n <= edge + 9; ++n) {
        Array x({n}, dtype), y({n}, dtype), less({n}, DType::boolean);
        x.fill_with([](int64_t i) { return double(i % 97); });
        y.fill_with([](int64_t i) { return double(i % 13); });
        std::vector<double> want = x.values(), smaller = want, before = y.values();
        for (size_t i = 0; i < want.size(); ++i) {
          want[i] = before[i] + 2 * want[i];
          smaller[i] = before[i] < smaller[i];
        }
        run_kernel(binary, BinaryOp::less, y.view(), x.view(), less.view());
        run_kernel(add_scaled, x.view(), 2, y.view());
        ASSERT_EQ(y.values(), want) << dtype << " " << n;
        ASSERT_EQ(less.values(), smaller) << dtype << " " << n;
        EXPECT_TRUE(y.surroundings_untouched() && less.surroundings_untouched()) << dtype << " " << n;
      }
}

TEST(Elementwise, AddsABiasRowToALargeMatrix) {
  Array a({131, 1537}, DType::f32), row({1, 1537}, DType::f32);
  a.randomize(1), row.randomize(2);
  std::vector<double> want = a.values(), bias = row.values();
  for (size_t i = 0; i < want.size(); ++i) want[i] = double(float(want[i]) + float(bias[i % 1537]));
  run_kernel(binary, BinaryOp::add, a.view(), expand(row.view(), {131, 1537}), a.view());  // in place
  EXPECT_EQ(a.values(), want);
}

TEST(Elementwise, ResultsDoNotDependOnPlaceLayoutOrThreads) {
  // The same numbers at every offset and stride, alone in the last partial vector or not: the same bits.
  Array x({2 * kPiece + 7233}, DType::f32), y({2 * kPiece + 7233}, DType::f32);
  x.randomize(9);
  for (UnaryOp op : {UnaryOp::gelu, UnaryOp::exp, UnaryOp::tanh}) {
    run_kernel(unary, op, x.view(), y.view());
    int threads = num_threads();
    Array other({2 * kPiece + 7233}, DType::f32, Layout::stepped);
    for (int count : {1, 2, 3}) {
      set_num_threads(count);
      run_kernel(unary, op, x.view(), other.view());
      EXPECT_EQ(other.values(), y.values()) << count << " threads";
    }
    set_num_threads(threads);
    for (int64_t skipped = 0; skipped < 16; ++skipped) {
      Array part({5}, DType::f32, Layout::contiguous, skipped);
      run_kernel(unary, op, slice(x.view(), 0, skipped, skipped + 5), part.view());
      EXPECT_EQ(part.values(), values_of(slice(y.view(), 0, skipped, skipped + 5))) << "from " << skipped;
    }
  }
}

TEST(Elementwise, CarriesNanAndInfinity) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> numbers = {nan, inf, -inf, -0.0, 1};
  auto apply = [&](UnaryOp op, DType dtype) {
    Array x({5}, DType::f32), y({5}, dtype);
    x.fill_with([&](int64_t i) { return numbers[size_t(i)]; });
    run_kernel(unary, op, x.view(), y.view());
    return y.values();
  };
  expect_near(apply(UnaryOp::relu, DType::f32), {nan, inf, 0, 0, 1}, 0, "relu");
  expect_near(apply(UnaryOp::is_finite, DType::boolean), {0, 0, 0, 1, 1}, 0, "is_finite");
  expect_near(apply(UnaryOp::rsqrt, DType::f32), {nan, 0, nan, -double(inf), 1}, 0, "rsqrt");

  Array a({4}, DType::f32), b({4}, DType::f32), y({4}, DType::f32);
  a.fill_with([&](int64_t i) { return i < 2 ? nan : 1; });
  b.fill_with([&](int64_t i) { return i % 2 ? nan : 1; });
  for (BinaryOp op : {BinaryOp::maximum, BinaryOp::minimum}) {
    run_kernel(binary, op, a.view(), b.view(), y.view());
    expect_near(y.values(), {nan, nan, 1, nan}, 0, "maximum or minimum");
  }
}

TEST(Elementwise, GradientsAtZeroAndNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers = {0, -0.0, nan, -2, 2};
  for (DType dtype : floating) {
    Array x({5}, dtype), dy({5}, dtype), dx({5}, dtype);
    x.fill_with([&](int64_t i) { return numbers[size_t(i)]; });
    dy.fill_with([](int64_t) { return 3; });
    run_kernel(unary_backward, UnaryOp::abs, dy.view(), x.view(), dx.view());
    expect_near(dx.values(), {0, 0, nan, -3, 3}, 0, "abs");
    run_kernel(unary_backward, UnaryOp::relu, dy.view(), x.view(), dx.view());
    expect_near(dx.values(), {0, 0, 3, 0, 3}, 0, "relu");  // PyTorch's threshold_backward: 0 where x <= 0
  }
}

TEST(Elementwise, IntegersWrapAndStayClosed) {
  Array a({2}, DType::i32), b({2}, DType::i32), y({2}, DType::i32);
  a.fill_with([](int64_t) { return 2147483647.0; });
  b.fill_with([](int64_t i) { return i ? -2147483648.0 : 1.0; });
  run_kernel(binary, BinaryOp::add, a.view(), b.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{-2147483648.0, -1}));
  run_kernel(unary, UnaryOp::neg, b.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{-1, -2147483648.0}));
  expect_error([&] { run_kernel(unary, UnaryOp::exp, a.view(), y.view()); },
               "exp: needs a floating dtype, got i32");
  expect_error([&] { run_kernel(binary, BinaryOp::div, a.view(), b.view(), y.view()); },
               "div: needs a floating dtype, got i32");
  expect_error([&] { run_kernel(unary_backward, UnaryOp::neg, a.view(), b.view(), y.view()); },
               "neg: has no gradient for i32");
}

TEST(Elementwise, AffineAndAddScaledMatchF64) {
  for (DType dtype : floating)
    for (const Shape& shape : small_shapes())
      for (Layout layout : layouts) {
        Array x(shape, dtype, layout), y(shape, dtype, Layout::rotated);
        x.randomize(1), y.randomize(2);
        std::vector<double> xs = x.values(), want = y.values();
        for (size_t i = 0; i < want.size(); ++i) want[i] += -0.75 * xs[i];
        run_kernel(add_scaled, x.view(), -0.75, y.view());
        expect_near(y.values(), want, tolerance_of(dtype), "add_scaled " + describe(shape, dtype, layout));
        for (size_t i = 0; i < want.size(); ++i) want[i] = xs[i] * 1.5 - 0.25;
        run_kernel(affine, x.view(), 1.5, -0.25, y.view());
        expect_near(y.values(), want, tolerance_of(dtype), "affine " + describe(shape, dtype, layout));
      }
}

TEST(Elementwise, AffineOfIntegersTakesWholeNumbers) {
  Array x({3}, DType::i64), y({3}, DType::i64);
  x.fill_with([](int64_t i) { return double(i); });
  run_kernel(affine, x.view(), -3, 2, y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{2, -1, -4}));
  expect_error([&] { run_kernel(affine, x.view(), 0.5, 0, y.view()); },
               "affine: 0.5 is not a whole number, and the tensor is i64");
  expect_error([&] { run_kernel(add_scaled, x.view(), 0.5, y.view()); },
               "add_scaled: 0.5 is not a whole number, and the tensor is i64");
}

TEST(Elementwise, WhereSelects) {
  std::vector<Shape> shapes = small_shapes();
  shapes.push_back({3, 1024});
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::u8})
    for (const Shape& shape : shapes)
      for (Layout layout : {Layout::contiguous, Layout::reversed}) {
        Array condition(shape, DType::boolean), a(shape, dtype, layout), b(shape, dtype), y(shape, dtype);
        condition.fill_with([](int64_t i) { return i % 3 == 0; });
        a.randomize(1, 0, 100), b.randomize(2, 0, 100);
        run_kernel(where, condition.view(), a.view(), b.view(), y.view());
        std::vector<double> want = a.values(), no = b.values();
        for (size_t i = 0; i < want.size(); ++i)
          if (i % 3) want[i] = no[i];
        EXPECT_EQ(y.values(), want) << describe(shape, dtype, layout);
      }
}

TEST(Elementwise, NamesTheOpAndTheValuesInErrors) {
  Array a({3, 5}, DType::f32), b({5, 3}, DType::f32), c({3, 5}, DType::f64), y({3, 5}, DType::f32);
  auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) { return error.what(); }
    return "no Error";
  };
  EXPECT_EQ(message([&] { run_kernel(binary, BinaryOp::add, a.view(), b.view(), y.view()); }),
            "add: shapes differ: (3, 5) and (5, 3)");
  EXPECT_EQ(message([&] { run_kernel(binary, BinaryOp::add, a.view(), c.view(), y.view()); }),
            "add: dtypes differ: f32 and f64");
  EXPECT_EQ(message([&] { run_kernel(binary, BinaryOp::less, a.view(), a.view(), y.view()); }),
            "less: writes bool, the output is f32");
  EXPECT_EQ(message([&] { run_kernel(where, a.view(), a.view(), a.view(), y.view()); }),
            "where: the condition is f32, not bool");
}

}  // namespace
}  // namespace reprise::kernels::testing
