// Batch normalisation by loops in f64, and the arrays of one case.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "reprise/kernels/norm/batch_norm.h"
#include "reprise/kernels/norm/batch_norm_math.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels::testing {

inline constexpr double kEps = 1e-5;
inline constexpr Layout kLayouts[] = {Layout::contiguous,
                                      Layout::offset};  // `offset` starts behind a 16-byte boundary

/// Odd sizes, sizes that 16-byte packs fit, one value per sample, several pieces, nothing at all.
inline const std::vector<Shape>& channel_shapes() {
  constexpr int64_t samples = kColumnSamples, channels = kColumnChannels, piece = kChannelPiece;
  static const std::vector<Shape> shapes = {{3, 5},
                                            {7, 4 * channels + 1},
                                            {9, channels},
                                            {8 * samples + 19, 2 * channels + 8},
                                            {17 * samples + 12, 3},
                                            {2, 3, 5},
                                            {5, 3, 8},
                                            {2 * (piece / 33) + 5, 2, 33},
                                            {1, 1, 2},
                                            {3, 2, 4 * piece + 1},
                                            {2, 3, 3, 5},
                                            {3, 2, 4, 6},
                                            {4 * (piece / 64) + 6, 2, 8, 8},
                                            {2, 2, 2, 3, 2}};
  return shapes;
}

/// The channel of each element in row-major order.
inline std::vector<size_t> channels_of(const Shape& shape) {
  size_t spatial = 1;
  for (int dim = 2; dim < shape.size(); ++dim) spatial *= size_t(shape[dim]);
  std::vector<size_t> channels(size_t(numel_of(shape)));
  for (size_t i = 0; i < channels.size(); ++i) channels[i] = i / spatial % size_t(shape[1]);
  return channels;
}

struct Statistics {
  std::vector<double> mean, variance;
};

inline Statistics reference_statistics(const std::vector<double>& x, const Shape& shape) {
  std::vector<size_t> channels = channels_of(shape);
  long double count = (long double)(x.size()) / (long double)(shape[1]);
  std::vector<long double> mean(static_cast<size_t>(shape[1])), variance(mean.size());
  for (size_t i = 0; i < x.size(); ++i) mean[channels[i]] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i)
    variance[channels[i]] += std::pow(x[i] - mean[channels[i]], 2) / count;
  return {{mean.begin(), mean.end()}, {variance.begin(), variance.end()}};
}

inline std::vector<double> reference_forward(const std::vector<double>& x, const Shape& shape,
                                             const Statistics& s, const std::vector<double>& gamma,
                                             const std::vector<double>& beta) {
  std::vector<size_t> channels = channels_of(shape);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    size_t c = channels[i];
    y[i] = (x[i] - s.mean[c]) / std::sqrt(s.variance[c] + kEps) * gamma[c] + beta[c];
  }
  return y;
}

struct Gradients {
  std::vector<double> dx, dgamma, dbeta;
};

inline Gradients reference_backward(const std::vector<double>& dy, const std::vector<double>& x,
                                    const Shape& shape, const Statistics& s, const std::vector<double>& gamma,
                                    bool batch) {
  std::vector<size_t> channels = channels_of(shape);
  double count = double(x.size()) / double(shape[1]);
  std::vector<long double> dgamma(gamma.size()), dbeta(gamma.size());
  std::vector<double> dx(x.size());
  auto rstd = [&](size_t c) { return 1 / std::sqrt(s.variance[c] + kEps); };
  auto h = [&](size_t i) { return (x[i] - s.mean[channels[i]]) * rstd(channels[i]); };
  for (size_t i = 0; i < x.size(); ++i) {
    dgamma[channels[i]] += dy[i] * h(i);
    dbeta[channels[i]] += dy[i];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    size_t c = channels[i];
    double g = dy[i];
    if (batch) g -= double(dbeta[c] + h(i) * dgamma[c]) / count;
    dx[i] = gamma[c] * rstd(c) * g;
  }
  return {dx, {dgamma.begin(), dgamma.end()}, {dbeta.begin(), dbeta.end()}};
}

/// All arrays of one case; inputs hold random numbers.
struct Case {
  Shape shape;
  Array x, dy, y, dx;
  Array gamma, beta, dgamma, dbeta, mean, variance;

  Case(const Shape& the_shape, DType dtype, Layout layout = Layout::contiguous)
      : shape(the_shape),
        x(shape, dtype, layout),
        dy(shape, dtype, layout),
        y(shape, dtype, layout),
        dx(shape, dtype, layout),
        gamma({shape[1]}, dtype, Layout::offset),
        beta({shape[1]}, dtype, Layout::stepped),
        dgamma({shape[1]}, dtype),
        dbeta({shape[1]}, dtype, Layout::stepped),
        mean({shape[1]}, DType::f64),
        variance({shape[1]}, DType::f64) {
    x.randomize(1);
    dy.randomize(2, -1, 1);
    gamma.randomize(3, 0.5, 1.5);
    beta.randomize(4);
  }
  BatchNormArguments arguments() {
    return {.x = x.view(),
            .gamma = gamma.view(),
            .beta = beta.view(),
            .mean = mean.view(),
            .variance = variance.view(),
            .eps = kEps,
            .y = y.view()};
  }
  void forward() { run_kernel(batch_norm, arguments()); }
  void inference() { run_kernel(batch_norm_inference, arguments()); }
  BatchNormBackwardArguments backward_arguments(NormStatistics statistics) {
    return {.dy = dy.view(),
            .x = x.view(),
            .gamma = gamma.view(),
            .mean = mean.view(),
            .variance = variance.view(),
            .eps = kEps,
            .statistics = statistics,
            .dx = dx.view(),
            .dgamma = dgamma.view(),
            .dbeta = dbeta.view()};
  }
  void backward(NormStatistics statistics) {
    run_kernel(batch_norm_backward, backward_arguments(statistics));
  }
  /// Statistics that are not those of x.
  Statistics make_running() {
    mean.randomize(5, -1, 1);
    variance.randomize(6, 0.5, 2);
    return {mean.values(), variance.values()};
  }
  std::vector<double> results() const {
    return joined(joined(y.values(), dx.values()), joined(dgamma.values(), dbeta.values()));
  }
  bool surroundings_untouched() const {
    return y.surroundings_untouched() && dx.surroundings_untouched() && dgamma.surroundings_untouched() &&
           dbeta.surroundings_untouched() && mean.surroundings_untouched() &&
           variance.surroundings_untouched();
  }
};

/// Calls body(case, description) for each shape, dtype and alignment.
template <class Body>
void for_each_case(Body&& body) {
  for (const Shape& shape : channel_shapes())
    for (DType dtype : floating_dtypes)
      for (Layout layout : kLayouts) {
        Case c(shape, dtype, layout);
        body(c, describe(shape, dtype, layout));
        EXPECT_TRUE(c.surroundings_untouched()) << describe(shape, dtype, layout);
      }
}

}  // namespace reprise::kernels::testing
