// Batch normalisation against loops in f64.
#include "reprise/kernels/norm/batch_norm.h"

#include "reprise/tests/kernels/norm/batch_norm_case.h"

namespace reprise::kernels {
namespace {

using namespace testing;

TEST(BatchNorm, NormalizesByTheStatisticsOfTheBatch) {
  for_each_case([](Case& c, const std::string& what) {
    c.forward();
    Statistics want = reference_statistics(c.x.values(), c.shape);
    DType dtype = c.x.view().dtype;
    // f32 (f64) sums of at most 512 numbers, joined in f64.
    double eps = epsilon_of(accumulator_dtype(dtype));
    expect_near(c.mean.values(), want.mean, 8 * eps, "mean " + what);
    expect_near(c.variance.values(), want.variance, 16 * eps, "variance " + what);
    std::vector<double> y = reference_forward(c.x.values(), c.shape, want, c.gamma.values(), c.beta.values());
    // Two values per channel can have an rstd of 300, which multiplies the rounding of x - mean.
    expect_near(c.y.values(), y, 8 * epsilon_of(dtype), "y " + what);
  });
}

TEST(BatchNorm, NormalizesByGivenStatistics) {
  for_each_case([](Case& c, const std::string& what) {
    Statistics running = c.make_running();
    c.inference();
    std::vector<double> y =
        reference_forward(c.x.values(), c.shape, running, c.gamma.values(), c.beta.values());
    // Four roundings of a product of up to 4, of which beta may take most away.
    expect_near(c.y.values(), y, 8 * epsilon_of(c.x.view().dtype), "y " + what);
  });
}

TEST(BatchNorm, SendsGradientsBackThroughBothKindsOfStatistics) {
  for (NormStatistics statistics : {NormStatistics::batch, NormStatistics::running})
    for_each_case([&](Case& c, const std::string& what) {
      bool batch = statistics == NormStatistics::batch;
      Statistics s = batch ? reference_statistics(c.x.values(), c.shape) : c.make_running();
      if (batch) c.forward();
      c.backward(statistics);
      Gradients want = reference_backward(c.dy.values(), c.x.values(), c.shape, s, c.gamma.values(), batch);
      // Sums of up to 12,000 terms of size 2, whose partial sums reach 60 and are rounded each; an rstd up to
      // 300 multiplies two values per channel.
      double tolerance = 128 * epsilon_of(c.x.view().dtype);
      expect_near(c.dx.values(), want.dx, tolerance, "dx " + what);
      expect_near(c.dgamma.values(), want.dgamma, tolerance, "dgamma " + what);
      expect_near(c.dbeta.values(), want.dbeta, tolerance, "dbeta " + what);
    });
}

TEST(BatchNorm, KeepsItsDigitsWhereTheMeanIsLargeOrANumberIsFarOff) {
  for (const Shape& shape : {Shape{531, 8}, Shape{3, 2, 4096}, Shape{5, 3, 333}})
    for (bool far_off : {false, true}) {
      Case c(shape, DType::f32);
      c.x.randomize(5, 9999, 10001);
      if (far_off) {  // the first number of all, where sums relative to it would begin
        std::vector<double> values = c.x.values();
        c.x.fill_with([&](int64_t i) { return i == 0 ? 1e4 : values[size_t(i)] - 10000; });
      }
      c.forward();
      Statistics want = reference_statistics(c.x.values(), shape);
      // As with a mean of 0: E[x^2] - mean^2 would be off by 100%, an uncorrected mean by 1e-3.
      for (size_t channel = 0; channel < want.variance.size(); ++channel)
        EXPECT_NEAR(c.variance.values()[channel], want.variance[channel],
                    16 * epsilon_of(DType::f32) * want.variance[channel])
            << shape << " channel " << channel;
      std::vector<double> y = reference_forward(c.x.values(), shape, want, c.gamma.values(), c.beta.values());
      expect_near(c.y.values(), y, 16 * epsilon_of(DType::f32), "y");
    }
}

TEST(BatchNorm, TreatsAbsentParametersAsNeutralAndTakesF32OnesWithHalfInputs) {
  Case c({7, 6, 3}, DType::bf16);
  Array gamma({6}, DType::f32), one({6}, DType::f32), zero({6}, DType::f32);
  one.fill_with([](int64_t) { return 1.0; });
  zero.fill_with([](int64_t) { return 0.0; });
  auto forward = [&](const TensorView& scale, const TensorView& shift) {
    run_kernel(batch_norm, {.x = c.x.view(),
                            .gamma = scale,
                            .beta = shift,
                            .mean = c.mean.view(),
                            .variance = c.variance.view(),
                            .eps = kEps,
                            .y = c.y.view()});
    return c.y.values();
  };
  EXPECT_EQ(forward({}, {}), forward(one.view(), zero.view()));
  std::vector<double> stored = c.gamma.values();
  gamma.fill_with([&](int64_t i) { return stored[size_t(i)]; });
  EXPECT_EQ(forward(gamma.view(), c.beta.view()), forward(c.gamma.view(), c.beta.view()));
}

TEST(BatchNorm, BackwardWritesOverItsGradientAndSkipsAbsentOutputs) {
  for (NormStatistics statistics : {NormStatistics::batch, NormStatistics::running})
    for (const Shape& shape : {Shape{9, 16}, Shape{5, 3, 7}}) {
      Case c(shape, DType::f32);
      c.make_running();
      c.backward(statistics);
      std::vector<double> dx = c.dx.values(), dgamma = c.dgamma.values(), dbeta = c.dbeta.values();
      auto backward = [&](const TensorView& into, const TensorView& gamma_into, const TensorView& beta_into) {
        run_kernel(batch_norm_backward, {.dy = c.dy.view(),
                                         .x = c.x.view(),
                                         .gamma = c.gamma.view(),
                                         .mean = c.mean.view(),
                                         .variance = c.variance.view(),
                                         .eps = kEps,
                                         .statistics = statistics,
                                         .dx = into,
                                         .dgamma = gamma_into,
                                         .dbeta = beta_into});
      };
      c.dgamma.randomize(9);
      c.dbeta.randomize(9);
      backward({}, c.dgamma.view(), {});
      backward({}, {}, c.dbeta.view());
      EXPECT_EQ(c.dgamma.values(), dgamma);
      EXPECT_EQ(c.dbeta.values(), dbeta);
      backward(c.dy.view(), {}, {});
      EXPECT_EQ(c.dy.values(), dx);
    }
}

TEST(BatchNorm, GivesTheStatisticsAloneWithoutAnOutput) {
  Case c({9, 3, 5}, DType::f32);
  c.forward();
  std::vector<double> mean = c.mean.values(), variance = c.variance.values();
  c.mean.randomize(7);
  run_kernel(batch_norm,
             {.x = c.x.view(), .mean = c.mean.view(), .variance = c.variance.view(), .eps = kEps});
  EXPECT_EQ(c.mean.values(), mean);
  EXPECT_EQ(c.variance.values(), variance);
}

TEST(BatchNorm, GivesTheSameBitsAtAnyAlignment) {
  for (const Shape& shape : {Shape{67, 16}, Shape{9, 3, 64}, Shape{3, 5, 7}})
    for (DType dtype : {DType::f32, DType::bf16}) {
      Case aligned(shape, dtype), shifted(shape, dtype, Layout::offset);
      for (Case* c : {&aligned, &shifted}) {
        c->forward();
        c->backward(NormStatistics::batch);
      }
      EXPECT_EQ(shifted.results(), aligned.results()) << shape << dtype;
    }
}

TEST(BatchNorm, EmptyInputsGiveZeroStatisticsAndParameterGradients) {
  for (const Shape& shape : {Shape{0, 5}, Shape{3, 5, 0}, Shape{0, 5, 2, 2}}) {
    Case c(shape, DType::f32);
    c.mean.randomize(7);
    c.variance.randomize(8);
    c.forward();
    EXPECT_EQ(c.mean.values(), std::vector<double>(5, 0.0));
    EXPECT_EQ(c.variance.values(), std::vector<double>(5, 0.0));
    c.inference();
    c.backward(NormStatistics::batch);
    EXPECT_EQ(c.dgamma.values(), std::vector<double>(5, 0.0));
    EXPECT_EQ(c.dbeta.values(), std::vector<double>(5, 0.0));
  }
  Case none({3, 0, 4}, DType::f32);
  none.forward();
  none.inference();
  none.backward(NormStatistics::batch);
}

TEST(BatchNorm, UpdatesRunningStatisticsByTheUnbiasedVariance) {
  for (DType dtype : floating_dtypes) {
    Array mean({3}, DType::f64), variance({3}, DType::f64);
    mean.fill_with([](int64_t i) { return double(i); });
    variance.fill_with([](int64_t i) { return 4.0 * double(i + 1); });
    Array running_mean({3}, dtype, Layout::stepped), running_variance({3}, dtype), batches({}, DType::i64);
    running_mean.fill_with([](int64_t) { return 2.0; });
    running_variance.fill_with([](int64_t) { return 1.0; });
    batches.fill_with([](int64_t) { return 0.0; });
    auto update = [&](std::optional<double> momentum, const TensorView& count) {
      run_kernel(update_running_statistics,
                 {.mean = mean.view(),
                  .variance = variance.view(),
                  .running_mean = running_mean.view(),
                  .running_variance = running_variance.view(),
                  .batches = count},
                 5, momentum);
    };
    update(0.25, {});
    EXPECT_EQ(running_mean.values(), (std::vector<double>{1.5, 1.75, 2}));
    EXPECT_EQ(running_variance.values(), (std::vector<double>{2, 3.25, 4.5}));
    update({}, batches.view());  // the first counted batch: 1 / 1
    EXPECT_EQ(running_variance.values(), (std::vector<double>{5, 10, 15}));
    mean.fill_with([](int64_t i) { return double(i) + 4; });
    update({}, batches.view());
    EXPECT_EQ(running_mean.values(), (std::vector<double>{2, 3, 4}));
    EXPECT_EQ(batches.values(), std::vector<double>{2});
    EXPECT_TRUE(running_mean.surroundings_untouched() && batches.surroundings_untouched());
  }
}

TEST(BatchNorm, IsExactAcrossThreadCounts) {
  for (const Shape& shape : {Shape{2100, 40}, Shape{67, 3, 129}})
    expect_same_at_any_thread_count([&] {
      Case c(shape, DType::f32);
      c.forward();
      c.backward(NormStatistics::batch);
      return c.results();
    });
}

TEST(BatchNorm, RefusesViewsThatDoNotFit) {
  Case c({3, 5, 2}, DType::f32);
  Array other({3, 5, 3}, DType::f32), half({3, 5, 2}, DType::bf16), vector({5}, DType::f32);
  Array turned({3, 5, 2}, DType::f32, Layout::reversed), six({6}, DType::f32);
  auto forward = [&](const TensorView& x, const TensorView& gamma, const TensorView& y,
                     const TensorView& mean) {
    run_kernel(batch_norm,
               {.x = x, .gamma = gamma, .mean = mean, .variance = c.variance.view(), .eps = kEps, .y = y});
  };
  expect_error([&] { forward(vector.view(), {}, vector.view(), c.mean.view()); },
               "batch_norm: needs (N, C, ...), got shape (5,)");
  expect_error([&] { forward(c.x.view(), {}, other.view(), c.mean.view()); }, "y has shape (3, 5, 3)");
  expect_error([&] { forward(c.x.view(), {}, half.view(), c.mean.view()); }, "y is bf16");
  expect_error([&] { forward(turned.view(), {}, c.y.view(), c.mean.view()); }, "x needs to be contiguous");
  expect_error([&] { forward(c.x.view(), six.view(), c.y.view(), c.mean.view()); }, "gamma has shape (6,)");
  expect_error([&] { forward(c.x.view(), {}, c.y.view(), vector.view()); }, "mean is f32");
  auto backward = [&](const TensorView& mean, const TensorView& variance) {
    run_kernel(batch_norm_backward,
               {.dy = c.dy.view(), .x = c.x.view(), .mean = mean, .variance = variance, .eps = kEps});
  };
  expect_error([&] { backward(c.mean.view(), {}); }, "batch_norm_backward: needs mean and variance");
  expect_error([&] { backward(six.view(), c.variance.view()); }, "batch_norm_backward: mean has shape (6,)");
  expect_error([&] { backward(c.mean.view(), six.view()); }, "batch_norm_backward: variance has shape (6,)");
  const RunningStatisticsArguments statistics{.mean = c.mean.view(),
                                              .variance = c.variance.view(),
                                              .running_mean = vector.view(),
                                              .running_variance = vector.view()};
  expect_error([&] { run_kernel(update_running_statistics, statistics, 1, 0.1); },
               "needs more than 1 value a channel, got 1");
  expect_error([&] { run_kernel(update_running_statistics, statistics, 2, std::nullopt); },
               "needs a momentum or the number of batches");
  auto update = [&](const TensorView& mean, const TensorView& running_mean,
                    const TensorView& running_variance) {
    run_kernel(update_running_statistics,
               {.mean = mean,
                .variance = c.variance.view(),
                .running_mean = running_mean,
                .running_variance = running_variance},
               2, 0.1);
  };
  expect_error([&] { update(vector.view(), vector.view(), vector.view()); }, "mean is f32");
  expect_error([&] { update(c.mean.view(), vector.view(), {}); }, "running mean and variance go together");
  expect_error([&] { update(c.mean.view(), six.view(), vector.view()); }, "running_mean has shape (6,)");
  expect_error([&] { update(c.mean.view(), vector.view(), six.view()); }, "running_variance has shape (6,)");
}

}  // namespace
}  // namespace reprise::kernels
