#include "reprise/kernels/image/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace reprise::kernels {
namespace {

double filter_at(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::bilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// Input pixels for an output pixel, and how far the widened filter reaches.
struct Scale {
  double scale, filter_scale, support;
  Scale(int64_t in, int64_t out, Filter filter)
      : scale(double(in) / double(out)),
        filter_scale(std::max(scale, 1.0)),
        support((filter == Filter::bilinear ? 1.0 : 2.0) * filter_scale) {}
  double centre(int64_t index) const { return (double(index) + 0.5) * scale; }
};

Window window_of(const Scale& scale, int64_t in, int64_t index) {
  const double centre = scale.centre(index);
  return {std::max<int64_t>(int64_t(centre - scale.support + 0.5), 0),
          std::min<int64_t>(int64_t(centre + scale.support + 0.5), in)};
}

/// Half away from zero.
int32_t rounded(double weight) {
  return int32_t(weight * double(1 << weight_bits) + (weight < 0 ? -0.5 : 0.5));
}

}  // namespace

Window resample_window(int64_t in, int64_t out, int64_t index, Filter filter) {
  return window_of(Scale(in, out, filter), in, index);
}

Window resample_reads(int64_t in, int64_t out, int64_t begin, int64_t end, Filter filter) {
  if (in == out) return {begin, end};
  const Scale scale(in, out, filter);
  return {window_of(scale, in, begin).begin, window_of(scale, in, end - 1).end};
}

void AxisWeights::compute(const ResampleAxis& axis, int64_t count, Filter filter) {
  const Scale scale(axis.in, axis.out, filter);
  taps = int64_t(std::ceil(scale.support)) * 2 + 1;
  windows.resize(size_t(count));
  weights.assign(size_t(count * taps), 0);
  exact.resize(size_t(taps));
  for (int64_t i = 0; i < count; ++i) {
    Window window = window_of(scale, axis.in, axis.out_begin + i);
    const double centre = scale.centre(axis.out_begin + i), inverse = 1.0 / scale.filter_scale;
    double sum = 0;
    for (int64_t k = 0; k < window.size(); ++k) {
      exact[size_t(k)] = filter_at(filter, (double(window.begin + k) - centre + 0.5) * inverse);
      sum += exact[size_t(k)];
    }
    for (int64_t k = 0; k < window.size(); ++k)
      weights[size_t(i * taps + k)] = rounded(sum != 0 ? exact[size_t(k)] / sum : exact[size_t(k)]);
    windows[size_t(i)] = {window.begin - axis.in_begin, window.end - axis.in_begin};
  }
}

}  // namespace reprise::kernels
