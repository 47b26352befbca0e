// A residual and relu in the passes of batch normalisation, forward and backward, against loops in f64.
#include "reprise/tests/kernels/norm/batch_norm_case.h"

namespace reprise::kernels {
namespace {

using namespace testing;

/// relu(y + residual) for the y of a forward without them.
std::vector<double> with_residual_and_relu(std::vector<double> y, const std::vector<double>& residual,
                                           bool relu) {
  for (size_t i = 0; i < y.size(); ++i) {
    if (!residual.empty()) y[i] += residual[i];
    if (relu && y[i] < 0) y[i] = 0;
  }
  return y;
}

TEST(BatchNormEpilogue, AddsAResidualThenAppliesRelu) {
  for_each_case([](Case& c, const std::string& what) {
    const DType dtype = c.x.view().dtype;
    const Statistics running = c.make_running();
    const std::vector<double> plain =
        reference_forward(c.x.values(), c.shape, running, c.gamma.values(), c.beta.values());
    Array residual(c.shape, dtype, Layout::offset);
    residual.randomize(7);
    for (Activation activation : {Activation::none, Activation::relu})
      for (bool add : {false, true}) {
        run_kernel(batch_norm_inference, {.x = c.x.view(),
                                          .gamma = c.gamma.view(),
                                          .beta = c.beta.view(),
                                          .mean = c.mean.view(),
                                          .variance = c.variance.view(),
                                          .eps = kEps,
                                          .residual = add ? residual.view() : TensorView(),
                                          .activation = activation,
                                          .y = c.y.view()});
        // As without them, and a rounding of a sum of up to 6.
        expect_near(c.y.values(),
                    with_residual_and_relu(plain, add ? residual.values() : std::vector<double>(),
                                           activation == Activation::relu),
                    10 * epsilon_of(dtype), "y " + what);
      }
  });
}

// The result says where: a gradient passes where it is positive or NaN, and not where it is 0.
TEST(BatchNormEpilogue, SendsGradientsBackThroughRelu) {
  for (NormStatistics statistics : {NormStatistics::batch, NormStatistics::running})
    for_each_case([&](Case& c, const std::string& what) {
      const bool batch = statistics == NormStatistics::batch;
      const DType dtype = c.x.view().dtype;
      const Statistics s = batch ? reference_statistics(c.x.values(), c.shape) : c.make_running();
      if (batch) c.forward();
      const double y[] = {0, 1, -0.0, std::nan(""), 1e-4};
      c.y.fill_with([&](int64_t i) { return y[i % 5]; });
      std::vector<double> passed = c.dy.values();
      for (size_t i = 0; i < passed.size(); ++i)
        if (y[i % 5] == 0) passed[i] = 0;
      Array dresidual(c.shape, dtype, Layout::offset);
      BatchNormBackwardArguments arguments = c.backward_arguments(statistics);
      arguments.y = c.y.view();
      arguments.dresidual = dresidual.view();
      run_kernel(batch_norm_backward, arguments);
      const Gradients want = reference_backward(passed, c.x.values(), c.shape, s, c.gamma.values(), batch);
      const double tolerance = 128 * epsilon_of(dtype);  // as without relu
      expect_near(c.dx.values(), want.dx, tolerance, "dx " + what);
      expect_near(c.dgamma.values(), want.dgamma, tolerance, "dgamma " + what);
      expect_near(c.dbeta.values(), want.dbeta, tolerance, "dbeta " + what);
      EXPECT_EQ(dresidual.values(), passed) << what;
      arguments.dx = {};
      arguments.dresidual = c.dy.view();  // alone, and over its own gradient
      run_kernel(batch_norm_backward, arguments);
      EXPECT_EQ(c.dy.values(), passed) << what;
      EXPECT_TRUE(dresidual.surroundings_untouched()) << what;
    });
}

TEST(BatchNormEpilogue, MayWriteOverItsResidual) {
  Case c({5, 3, 7}, DType::f32);
  c.make_running();
  auto result = [&](const TensorView& into) {
    c.dx.randomize(7);
    run_kernel(batch_norm_inference, {.x = c.x.view(),
                                      .mean = c.mean.view(),
                                      .variance = c.variance.view(),
                                      .eps = kEps,
                                      .residual = c.dx.view(),
                                      .activation = Activation::relu,
                                      .y = into});
  };
  result(c.y.view());
  result(c.dx.view());
  EXPECT_EQ(c.dx.values(), c.y.values());
}

TEST(BatchNormEpilogue, RefusesViewsThatDoNotFit) {
  Case c({3, 5, 2}, DType::f32);
  Array other({3, 5, 3}, DType::f32), half({3, 5, 2}, DType::bf16);
  Array turned({3, 5, 2}, DType::f32, Layout::reversed);
  auto fused = [&](const TensorView& residual, Activation activation) {
    run_kernel(batch_norm, {.x = c.x.view(),
                            .mean = c.mean.view(),
                            .variance = c.variance.view(),
                            .eps = kEps,
                            .residual = residual,
                            .activation = activation,
                            .y = c.y.view()});
  };
  expect_error([&] { fused(other.view(), Activation::none); }, "batch_norm: residual has shape (3, 5, 3)");
  expect_error([&] { fused(turned.view(), Activation::none); }, "residual needs to be contiguous");
  expect_error([&] { fused({}, Activation::silu); }, "the activation needs to be none or relu");
  auto through = [&](const TensorView& y, const TensorView& dresidual) {
    BatchNormBackwardArguments arguments = c.backward_arguments(NormStatistics::batch);
    arguments.y = y;
    arguments.dresidual = dresidual;
    run_kernel(batch_norm_backward, arguments);
  };
  expect_error([&] { through(half.view(), {}); }, "batch_norm_backward: y is bf16");
  expect_error([&] { through({}, other.view()); }, "batch_norm_backward: dresidual has shape (3, 5, 3)");
}

}  // namespace
}  // namespace reprise::kernels
