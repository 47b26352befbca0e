// Cross-entropy against loops in f64.
#include "reprise/kernels/softmax/cross_entropy.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

Array one(double value) {
  return std::move(Array({}, DType::f64).fill_with([=](int64_t) { return value; }));
}

struct Case {
  RowArray logits, dlogits;
  Array targets, losses;

  Case(int64_t rows, int64_t classes, DType dtype, RowLayout layout, double range = 4)
      : logits({rows, classes}, dtype, layout),
        dlogits({rows, classes}, dtype, layout),
        targets({rows}, DType::i64, Layout::stepped),
        losses({rows}, accumulator_dtype(dtype), Layout::stepped) {
    logits.randomize(1, -range, range);
    dlogits.fill(77);
    targets.fill_with([=](int64_t i) { return double((i * 7 + 3) % classes); });
  }
  void run(const CrossEntropyOptions& options, double scale = 1) {
    run_kernel(cross_entropy, {.logits = logits.view(),
                               .targets = targets.view(),
                               .options = options,
                               .losses = losses.view(),
                               .dlogits = dlogits.view(),
                               .scale = one(scale).view()});
  }
};

struct Reference {
  std::vector<double> losses, dlogits;

  Reference(const Case& c, const CrossEntropyOptions& options, double scale) {
    std::vector<double> x = c.logits.values(), targets = c.targets.values();
    size_t classes = size_t(c.logits.view().size(1));
    for (size_t row = 0; row < targets.size(); ++row) {
      const double* logits = x.data() + row * classes;
      double max = *std::max_element(logits, logits + classes), sum = 0, loss = 0;
      for (size_t v = 0; v < classes; ++v) sum += std::exp(logits[v] - max);
      bool ignored = targets[row] == double(options.ignore_index);
      for (size_t v = 0; v < classes; ++v) {
        double q = options.label_smoothing / double(classes) +
                   (double(v) == targets[row] ? 1 - options.label_smoothing : 0);
        if (q > 0) loss -= q * (logits[v] - max - std::log(sum));
        dlogits.push_back(ignored ? 0 : scale * (std::exp(logits[v] - max) / sum - q));
      }
      losses.push_back(ignored ? 0 : loss);
    }
  }
};

// The gradient of logits in 16 bits, made afterwards: one rounding from f64 loops, whatever dy is; rows apart, ignored
// rows, and in the place of the logits.
TEST(CrossEntropy, BackwardOfHalfLogitsMatchesF64Loops) {
  for (const Shape& shape :
       {Shape{5, 1}, {7, 5}, {67, 65}, {5, 264}, {3, 1048}, {3, 2 * kCrossEntropyBlock + 907}, {2, 16400}})
    for (DType dtype : {DType::bf16, DType::f16})
      for (RowLayout layout : {RowLayout::contiguous, RowLayout::padded})
        for (double smoothing : {0.0, 0.1, 1.0})
          for (bool each : {false, true}) {
            CrossEntropyOptions options = {.ignore_index = 3, .label_smoothing = smoothing};
            Case c(shape[0], shape[1], dtype, layout);
            Array log_sums({shape[0]}, DType::f64), dy({each ? shape[0] : 1}, DType::f32);
            dy.randomize(5, 0.5, 64);
            run_kernel(cross_entropy, {.logits = c.logits.view(),
                                       .targets = c.targets.view(),
                                       .options = options,
                                       .losses = c.losses.view(),
                                       .log_sums = log_sums.view()});
            Reference want(c, options, 0.25);
            const std::vector<double> factors = dy.values();
            double largest = 0;
            for (size_t i = 0; i < want.dlogits.size(); ++i) {
              const double factor = factors[each ? i / size_t(shape[1]) : 0];
              want.dlogits[i] *= factor;
              largest = std::max(largest, factor);
            }
            auto gradient = [&](const RowArray& into) {
              run_kernel(cross_entropy_backward, {.logits = c.logits.view(),
                                                  .targets = c.targets.view(),
                                                  .options = options,
                                                  .log_sums = log_sums.view(),
                                                  .dy = each ? dy.view() : expand(dy.view(), {shape[0]}),
                                                  .scale = one(0.25).view(),
                                                  .dlogits = into.view()});
              return into.values();
            };
            const std::string what = describe(shape, dtype, Layout(layout));
            const std::vector<double> got = gradient(c.dlogits);
            expect_near(got, want.dlogits, 0.25 * largest * epsilon_of(dtype), "dlogits " + what);
            EXPECT_TRUE(layout == RowLayout::contiguous || c.dlogits.gaps_hold(77)) << what;
            EXPECT_EQ(gradient(c.logits), got) << "in place, " << what;
          }
}

TEST(CrossEntropy, BackwardRefusesWhatDoesNotFit) {
  RowArray logits({2, 3}, DType::bf16), wide({2, 3}, DType::f32);
  Array targets({2}, DType::i64), sums({2}, DType::f64), dy({2}, DType::f32), other({2}, DType::bf16);
  auto refuses = [&](const RowArray& x, const Array& lse, const Array& gradient, const char* message) {
    expect_error(
        [&] {
          run_kernel(cross_entropy_backward, {.logits = x.view(),
                                              .targets = targets.view(),
                                              .log_sums = lse.view(),
                                              .dy = gradient.view(),
                                              .dlogits = x.view()});
        },
        message);
  };
  refuses(wide, sums, dy, "cross_entropy_backward: needs logits of 16 bits, got f32");
  refuses(logits, dy, dy, "cross_entropy_backward: log_sums is f32, should be f64");
  refuses(logits, sums, other, "cross_entropy_backward: dy is bf16, should be f32");
}

TEST(CrossEntropy, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (auto [rows, classes] : {std::pair<int64_t, int64_t>{5, 1},
                               {3, 3},
                               {7, 5},
                               {67, 65},
                               {5, 129},
                               {3, 2 * kCrossEntropyBlock + 907}})
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : {RowLayout::contiguous, RowLayout::padded})
        for (double smoothing : {0.0, 0.1, 1.0}) {
          CrossEntropyOptions options = {.label_smoothing = smoothing};
          Case c(rows, classes, dtype, layout);
          c.run(options, 0.25);
          Reference want(c, options, 0.25);
          std::string what = describe({rows, classes}, dtype, Layout(layout));
          // A loss is a sum of up to 5003 terms, by one running sum in the reference itself; each gradient is
          // a handful of roundings of numbers below 1.
          expect_near(c.losses.values(), want.losses, 64 * epsilon_of(accumulator_dtype(dtype)),
                      "loss " + what);
          expect_near(c.dlogits.values(), want.dlogits, 2 * epsilon_of(dtype), "dlogits " + what);
          EXPECT_TRUE(layout == RowLayout::contiguous || c.dlogits.gaps_hold(77));
        }
}

TEST(CrossEntropy, MatchesF64LoopsAtEveryCutOfTheRow) {
  std::vector<Shape> shapes = cut_shapes();
  for (int64_t classes : {50304, 50257}) shapes.push_back({2, classes});
  for (const Shape& shape : shapes) {
    if (shape.size() != 2) continue;
    for (DType dtype : packed_dtypes) {
      CrossEntropyOptions options = {.label_smoothing = shape[0] % 2 == 0 ? 0.1 : 0};
      Case c(shape[0], shape[1], dtype, RowLayout::contiguous);
      c.run(options, 0.25);
      Reference want(c, options, 0.25);
      std::string what = describe(shape, dtype, Layout::contiguous);
      // A running sum of up to 50304 terms in the reference; see above.
      expect_near(c.losses.values(), want.losses, 64 * epsilon_of(DType::f32), "loss " + what);
      expect_near(c.dlogits.values(), want.dlogits, 2 * epsilon_of(dtype), "dlogits " + what);
    }
  }
}

TEST(CrossEntropy, GivesIgnoredRowsNoLossAndNoGradient) {
  CrossEntropyOptions options = {.ignore_index = 3};
  for (auto [classes, layout] : {std::pair{7, RowLayout::padded},
                                 {264, RowLayout::contiguous},
                                 {1032, RowLayout::contiguous},
                                 {16392, RowLayout::contiguous}}) {
    Case c(9, classes, DType::f32, layout);
    c.run(options);
    Reference want(c, options, 1);
    expect_near(c.losses.values(), want.losses, 32 * epsilon_of(DType::f32), "loss");
    expect_near(c.dlogits.values(), want.dlogits, 2 * epsilon_of(DType::f32), "dlogits");
    ASSERT_EQ(c.losses.values()[0], 0);  // its target is 3
  }
}

TEST(CrossEntropy, SurvivesLogitsWhoseExponentialsOverflow) {
  for (double range : {1e3, 1e30}) {
    Case c(5, 2 * kCrossEntropyBlock + 3, DType::f32, RowLayout::contiguous, range);
    c.run({});
    Reference want(c, {}, 1);
    expect_near(c.losses.values(), want.losses, 16 * epsilon_of(DType::f32), "loss");
    expect_near(c.dlogits.values(), want.dlogits, 4 * epsilon_of(DType::f32), "dlogits");
  }
}

TEST(CrossEntropy, TakesMaskedClassesAndCarriesNaN) {
  for (int64_t classes : {2 * kCrossEntropyBlock + 904, 8 * kCrossEntropyBlock + 616}) {
    Array logits({2, classes}, DType::f32), targets({2}, DType::i64), losses({2}, DType::f32);
    double masked = -std::numeric_limits<double>::infinity();
    logits.fill_with([=](int64_t i) { return i >= classes ? 0.0 : i < classes - 1000 ? masked : 1.0; });
    targets.fill_with([=](int64_t) { return double(classes - 500); });
    set_element(logits.view(), classes + 10, std::nan(""));
    run_kernel(cross_entropy, {.logits = logits.view(), .targets = targets.view(), .losses = losses.view()});
    EXPECT_NEAR(losses.values()[0], std::log(1000.0), 1e-5) << classes;  // 1000 classes left, f32
    EXPECT_TRUE(std::isnan(losses.values()[1])) << classes;
  }
}

TEST(CrossEntropy, WritesTheGradientOverTheLogitsAndTheSameLossWithoutIt) {
  CrossEntropyOptions options = {.label_smoothing = 0.2};
  for (auto [classes, layout] : {std::pair{65, RowLayout::padded},
                                 {264, RowLayout::contiguous},
                                 {1032, RowLayout::contiguous},
                                 {16392, RowLayout::contiguous},
                                 {16391, RowLayout::contiguous}}) {
    Case c(7, classes, DType::f32, layout);
    c.run(options, 0.5);
    std::vector<double> losses = c.losses.values(), dlogits = c.dlogits.values();
    auto run = [&](const TensorView& gradient) {
      run_kernel(cross_entropy, {.logits = c.logits.view(),
                                 .targets = c.targets.view(),
                                 .options = options,
                                 .losses = c.losses.view(),
                                 .dlogits = gradient,
                                 .scale = one(0.5).view()});
    };
    run({});
    EXPECT_EQ(c.losses.values(), losses) << classes;
    run(c.logits.view());
    EXPECT_EQ(c.losses.values(), losses) << classes;
    EXPECT_EQ(c.logits.values(), dlogits) << classes;
  }
}

TEST(CrossEntropy, TakesLogitsAndGradientsThatAreAlignedDifferently) {
  for (int64_t classes : {65, 1031, 1032, 5003})
    for (DType dtype : packed_dtypes) {
      Case c(5, classes, dtype, RowLayout::padded);
      Reference want(c, {}, 1);
      RowArray dlogits({5, classes}, dtype);
      run_kernel(cross_entropy, {.logits = c.logits.view(),
                                 .targets = c.targets.view(),
                                 .losses = c.losses.view(),
                                 .dlogits = dlogits.view()});
      std::string what = describe({5, classes}, dtype, Layout::contiguous);
      expect_near(c.losses.values(), want.losses, 64 * epsilon_of(DType::f32), "loss " + what);
      expect_near(dlogits.values(), want.dlogits, 2 * epsilon_of(dtype), "dlogits " + what);
    }
}

TEST(CrossEntropy, IsExactAcrossThreadCounts) {
  for (auto [rows, classes] : {std::pair<int64_t, int64_t>{515, 65}, {3, 20011}})
    expect_same_at_any_thread_count([rows = rows, classes = classes] {
      Case c(rows, classes, DType::f32, RowLayout::contiguous);
      c.run({.label_smoothing = 0.1});
      return joined(c.losses.values(), c.dlogits.values());
    });
}

TEST(CrossEntropy, CountsTheTargetsThatAreNotIgnoredForAMean) {
  for (int64_t rows : {0, 1, 3, 1023, 1024, 1025, 9001})
    for (Layout layout : {Layout::contiguous, Layout::offset, Layout::stepped})
      for (int64_t ignored_of_7 : {0, 3, 7}) {
        Array targets({rows}, DType::i64, layout), scale({1}, DType::f64, layout);
        int64_t count = 0;
        targets.fill_with([&](int64_t i) {
          bool ignored = i * 5 % 7 < ignored_of_7;
          count += !ignored;
          return ignored ? -100.0 : double(i % 11) - 5;  // it looks at no bound
        });
        run_kernel(cross_entropy_mean_scale, targets.view(), -100, scale.view());
        EXPECT_EQ(scale.values()[0], 1.0 / double(std::max<int64_t>(count, 1)))
            << rows << " rows, layout " << int(layout) << ", ignored " << ignored_of_7 << "/7";
        EXPECT_TRUE(scale.surroundings_untouched());
      }
}

TEST(CrossEntropy, TakesNoRows) {
  Case c(0, 5, DType::f32, RowLayout::contiguous);
  EXPECT_NO_THROW(c.run({}));
}

TEST(CrossEntropy, RefusesTargetsOutOfRangeBeforeItWrites) {
  for (int64_t bad : {int64_t{-1}, int64_t{7}}) {
    Case c(9, 7, DType::f32, RowLayout::padded);
    set_element(c.targets.view(), offset_of(c.targets.view(), 5), double(bad));
    std::vector<double> losses = c.losses.values();
    expect_error([&] { c.run({}); },
                 "cross_entropy: target " + std::to_string(bad) + " in row 5 is outside [0, 7)");
    EXPECT_EQ(c.losses.values(), losses);
    EXPECT_EQ(c.dlogits.values(), std::vector<double>(63, 77.0));
  }
}

TEST(CrossEntropy, OnCudaGivesARowWithABadTargetNanAndNoGradientAndTheOthersTheirOwn) {
  Device device = reprise::testing::test_device();
  if (device.is_cpu()) GTEST_SKIP() << "the CPU writes nothing";
  for (int64_t classes : {7, 1032, 16392}) {
    Case c(9, classes, DType::f32, RowLayout::contiguous);
    c.run({});
    std::vector<double> losses = c.losses.values(), dlogits = c.dlogits.values();
    losses[5] = std::nan("");
    std::fill_n(dlogits.begin() + 5 * classes, classes, 0.0);
    set_element(c.targets.view(), offset_of(c.targets.view(), 5), double(classes));
    Staging staging(device);
    const CrossEntropyArguments arguments{.logits = c.logits.view(),
                                          .targets = c.targets.view(),
                                          .losses = c.losses.view(),
                                          .dlogits = c.dlogits.view()};
    staging.collect(arguments);
    staging.upload();
    cross_entropy(current_stream(device), staging.mapped(arguments));
    expect_error([&] { synchronize(device); }, "in row 5 is outside [0, " + std::to_string(classes) + ")");
    staging.download();
    expect_near(c.losses.values(), losses, 0, "losses");
    EXPECT_EQ(c.dlogits.values(), dlogits);
  }
}

TEST(CrossEntropy, RefusesViewsThatDoNotFit) {
  Case c(3, 5, DType::bf16, RowLayout::contiguous);
  Array half({3}, DType::bf16), cube({3, 5, 7}, DType::f32);
  auto call = [&](const TensorView& logits, const TensorView& losses, const CrossEntropyOptions& options) {
    run_kernel(cross_entropy,
               {.logits = logits, .targets = c.targets.view(), .options = options, .losses = losses});
  };
  expect_error([&] { call(c.logits.view(), half.view(), {}); }, "losses is bf16, should be f32");
  expect_error([&] { call(cube.view(), c.losses.view(), {}); }, "logits need shape (N, V)");
  expect_error([&] { call(c.logits.view(), c.losses.view(), {.label_smoothing = 1.5}); },
               "label_smoothing is 1.5");
  auto scaled_by = [&](const TensorView& scale) {
    run_kernel(
        cross_entropy,
        {.logits = c.logits.view(), .targets = c.targets.view(), .losses = c.losses.view(), .scale = scale});
  };
  expect_error([&] { scaled_by(c.losses.view()); }, "scale needs one f64, has (3,) f32");
  expect_error([&] { run_kernel(cross_entropy_mean_scale, c.losses.view(), 0, one(1).view()); },
               "targets is f32, should be i64");
  expect_error([&] { run_kernel(cross_entropy_mean_scale, c.targets.view(), 0, {}); }, "scale needs one f64");
}

}  // namespace
}  // namespace reprise::kernels
