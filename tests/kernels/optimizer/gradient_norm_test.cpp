// Norms and checks of gradients against loops in f64.
// not in tsan: NormAndCheck.FindsBadOnesBeyondATable:GlobalNorm.TakesMoreTensorsThanATableHoldsAndLongOnes
#include "reprise/kernels/optimizer/gradient_norm.h"

#include <deque>

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

const std::vector<Shape> kShapes = {{}, {7}, {3, 5}, {0}, {2, 3, 5, 7}, {129}, {5, kOptimizerPiece - 705}};
const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// Tensors of all shapes and floating dtypes in one layout.
struct Mixed {
  std::deque<Array> arrays;
  std::vector<TensorView> views;
  double sum = 0;  ///< of their squares

  explicit Mixed(Layout layout) {
    for (const Shape& shape : kShapes)
      for (DType dtype : floating_dtypes) {
        views.push_back(arrays.emplace_back(shape, dtype, layout).randomize(arrays.size()).view());
        for (double x : arrays.back().values()) sum += x * x;
      }
  }
};

TEST(GlobalNorm, IsTheRootOfTheSumOfSquaresOnEveryDtypeAndLayout) {
  for (Layout layout : layouts) {
    const Mixed mixed(layout);
    Array norm({}, DType::f64);
    run_kernel(global_norm, mixed.views, norm.view());
    const double want = std::sqrt(mixed.sum);
    EXPECT_NEAR(norm.values()[0], want, 1e-10 * want);  // f64 sums in another order
  }
}

TEST(GlobalNorm, OfNothingIsZeroAndCarriesInfinity) {
  Array norm({1}, DType::f64), x({3}, DType::f32);
  run_kernel(global_norm, {}, norm.view());
  EXPECT_EQ(norm.values()[0], 0);
  x.fill_with([](int64_t i) { return i == 1 ? std::numeric_limits<double>::infinity() : 1e30; });
  std::vector<TensorView> views = {x.view()};
  run_kernel(global_norm, views, norm.view());
  EXPECT_TRUE(std::isinf(norm.values()[0]));
  set_element(x.view(), 1, 1e30);  // its square overflows f32
  run_kernel(global_norm, views, norm.view());
  EXPECT_NEAR(norm.values()[0], std::sqrt(3.0) * 1e30, 1e24);
}

TEST(GlobalNorm, TakesMoreTensorsThanATableHoldsAndLongOnes) {
  std::deque<Array> arrays;
  std::vector<TensorView> views;
  double want = 0;
  for (int t = 0; t < kMostTableEntries + 232; ++t) {
    views.push_back(
        arrays.emplace_back(Shape{t == 500 ? 4 * kNormPiece + 4465 : t % 4}, DType::f32).randomize(t).view());
    for (double x : arrays.back().values()) want += x * x;
  }
  Array norm({}, DType::f64);
  run_kernel(global_norm, views, norm.view());
  EXPECT_NEAR(norm.values()[0], std::sqrt(want), 1e-10 * std::sqrt(want));  // f64 sums in another order
}

TEST(CheckFinite, FindsOneInfinityOrNanAnywhere) {
  Array found({}, DType::i32);
  for (DType dtype : floating_dtypes)
    for (Layout layout : layouts) {
      std::deque<Array> arrays;
      std::vector<TensorView> views;
      for (const Shape& shape : kShapes)
        views.push_back(arrays.emplace_back(shape, dtype, layout).randomize(arrays.size()).view());
      auto check = [&](bool want, const char* what) {
        run_kernel(check_finite, views, found.view());
        EXPECT_EQ(found.values()[0], want) << what << " " << dtype << " layout " << int(layout);
      };
      check(false, "finite numbers");
      double largest = dtype == DType::f16 ? 65504.0 : dtype == DType::f64 ? 1e308 : 3.38e38;
      set_element(views[1], offset_of(views[1], 3), -largest);
      check(false, "the largest number");
      for (size_t t : {0, 1, 4, 6})
        for (int64_t at : {int64_t(0), views[t].numel() / 2, views[t].numel() - 1})
          for (double bad : {inf, -inf, nan}) {
            int64_t offset = offset_of(views[t], at);
            double before = element(views[t], offset);
            set_element(views[t], offset, bad);
            check(true, "a bad number");
            set_element(views[t], offset, before);
          }
      check(false, "finite numbers again");
    }
  run_kernel(check_finite, {}, found.view());
  EXPECT_EQ(found.values()[0], 0);
}

struct Checked {
  double found, norm, gradient_scale;
};

Checked checked(const std::vector<TensorView>& views, double scale, double clip) {
  Array found({}, DType::i32), norm({}, DType::f64), gradient_scale({}, DType::f64), factor({}, DType::f32);
  factor.fill_with([&](int64_t) { return scale; });
  run_kernel(
      norm_and_check, views,
      {scale == 0 ? TensorView() : factor.view(), clip, found.view(), norm.view(), gradient_scale.view()});
  return {found.values()[0], norm.values()[0], gradient_scale.values()[0]};
}

TEST(NormAndCheck, MixesDtypesAndDividesByTheScale) {
  for (Layout layout : layouts) {
    const Mixed mixed(layout);
    const double norm = std::sqrt(mixed.sum);
    for (double scale : {0.0, 1.0, 65536.0, 0x1p-4}) {
      const double inverse = scale == 0 ? 1 : 1 / scale;
      for (double clip : {0.0, 0.5 * norm * inverse, 2 * norm * inverse}) {
        const Checked got = checked(mixed.views, scale, clip);
        EXPECT_EQ(got.found, 0);
        EXPECT_NEAR(got.norm, norm * inverse, 1e-10 * norm * inverse);  // f64 sums in another order
        const double factor = clip == 0 ? 1 : std::min(1.0, clip / (norm * inverse + 1e-6));
        EXPECT_NEAR(got.gradient_scale, inverse * factor, 1e-10 * inverse);
        EXPECT_TRUE(factor < 1 || got.gradient_scale == inverse) << "unscaling is exact";
      }
    }
  }
}

// Of several bad tensors the first, wherever its bad number is, in whatever order the blocks of the launches run.
TEST(NormAndCheck, NamesTheFirstTensorThatIsNotFinite) {
  for (Layout layout : layouts) {
    std::deque<Array> arrays;
    std::vector<TensorView> views;
    for (const Shape& shape : std::vector<Shape>{{7}, {0}, {3 * kNormPiece + 5}, {3, 5}, {129}})
      for (DType dtype : {DType::f16, DType::f32, DType::f64, DType::bf16})
        views.push_back(arrays.emplace_back(shape, dtype, layout).randomize(arrays.size()).view());
    EXPECT_EQ(checked(views, 1024, 1).found, 0);
    set_element(views[1], offset_of(views[1], 2), 3.4e38);  // its square is far above f32's range
    EXPECT_EQ(checked(views, 1024, 1).found, 0);
    for (size_t t : {size_t(19), size_t(17), size_t(12), size_t(10), size_t(8), size_t(3), size_t(0)})
      for (double bad : {nan, inf, -inf}) {
        set_element(views[t], offset_of(views[t], views[t].numel() - 1), bad);
        EXPECT_EQ(checked(views, 1024, 1).found, double(t) + 1) << "layout " << int(layout);
      }
  }
}

TEST(NormAndCheck, FindsBadOnesBeyondATable) {
  std::deque<Array> arrays;
  std::vector<TensorView> views;
  for (int t = 0; t < kMostTableEntries + 232; ++t)
    views.push_back(
        arrays.emplace_back(Shape{1 + t % 4}, t % 2 ? DType::f32 : DType::bf16).randomize(t).view());
  for (size_t t : {views.size() - 1, views.size() - 2, size_t(kMostTableEntries), size_t(700)}) {
    set_element(views[t], 0, nan);
    EXPECT_EQ(checked(views, 1, 0).found, double(t) + 1);
  }
}

TEST(NormAndCheck, OfNothingIsClean) {
  const Checked got = checked({}, 4, 1);
  EXPECT_EQ(got.found, 0);
  EXPECT_EQ(got.norm, 0);
  EXPECT_EQ(got.gradient_scale, 0.25);
}

TEST(GradientNorm, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Array a({257, 129}, DType::f32), b({65}, DType::bf16), norm({}, DType::f64);
    std::vector<TensorView> gradients = {a.randomize(1).view(), b.randomize(2).view()};
    run_kernel(global_norm, gradients, norm.view());
    const Checked got = checked(gradients, 8, 1);
    return joined(norm.values(), {got.norm, got.gradient_scale});
  });
}

TEST(GradientNorm, RefusesResultsThatDoNotFit) {
  Array f32({}, DType::f32), f64({}, DType::f64), i32({}, DType::i32), two({2}, DType::f64);
  expect_error([&] { run_kernel(global_norm, {}, f32.view()); }, "global_norm: norm needs one f64");
  expect_error([&] { run_kernel(check_finite, {}, f32.view()); }, "check_finite: found needs one i32");
  auto check = [&](const GradientCheck& given, const char* message) {
    expect_error([&] { run_kernel(norm_and_check, {}, given); }, message);
  };
  check({{}, 0, f32.view(), f64.view(), f64.view()}, "norm_and_check: found needs one i32");
  check({{}, 0, i32.view(), f32.view(), f64.view()}, "norm_and_check: norm needs one f64");
  check({{}, 0, i32.view(), f64.view(), two.view()}, "norm_and_check: gradient_scale needs one f64");
  check({f64.view(), 0, i32.view(), f64.view(), f64.view()}, "norm_and_check: scale needs one f32");
  check({{}, -1, i32.view(), f64.view(), f64.view()}, "norm_and_check: clip must be at least 0");
}

}  // namespace
}  // namespace reprise::kernels
