// Axis maps: the weights of interpolation, means and mirrored borders.
#include "reprise/kernels/image/axis_map.h"

#include <algorithm>
#include <cmath>

namespace reprise::kernels {
namespace {

double linear(double x) { return std::max(0.0, 1 - std::fabs(x)); }

/// Keys, "Cubic convolution interpolation for digital image processing", 1981.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// Pixels of the image for each of the result.
double scale_of(int64_t inputs, int64_t outputs, Align align) {
  if (align == Align::edges) return double(inputs) / double(outputs);
  return outputs > 1 ? double(inputs - 1) / double(outputs - 1) : 0;
}

}  // namespace

void AxisMap::add(int64_t source, double weight) {
  for (size_t k = size_t(starts.back()); k < sources.size(); ++k)
    if (sources[k] == source) {
      weights[k] += weight;
      return;
    }
  sources.push_back(int32_t(source));
  weights.push_back(weight);
}

void AxisMap::end_output() { starts.push_back(int32_t(sources.size())); }

AxisMap AxisMap::transposed() const {
  AxisMap result{.inputs = outputs()};
  result.starts.assign(size_t(inputs) + 1, 0);
  for (int32_t source : sources) ++result.starts[size_t(source) + 1];
  for (size_t i = 1; i < result.starts.size(); ++i) result.starts[i] += result.starts[i - 1];
  result.sources.resize(sources.size());
  result.weights.resize(sources.size());
  std::vector<int32_t> next = result.starts;
  for (int64_t i = 0; i < outputs(); ++i)
    for (int32_t k = starts[size_t(i)]; k < starts[size_t(i) + 1]; ++k) {
      const size_t to = size_t(next[size_t(sources[size_t(k)])]++);
      result.sources[to] = int32_t(i);
      result.weights[to] = weights[size_t(k)];
    }
  return result;
}

AxisMap nearest_map(int64_t inputs, int64_t outputs) {
  AxisMap map{.inputs = inputs};
  for (int64_t i = 0; i < outputs; ++i) {
    map.add(i * inputs / outputs, 1);
    map.end_output();
  }
  return map;
}

AxisMap interpolation_map(int64_t inputs, int64_t outputs, Kernel1d kernel, Align align) {
  AxisMap map{.inputs = inputs};
  const double scale = scale_of(inputs, outputs, align);
  const int64_t radius = kernel == Kernel1d::linear ? 1 : 2;
  for (int64_t i = 0; i < outputs; ++i) {
    const double at = align == Align::corners ? scale * double(i) : scale * (double(i) + 0.5) - 0.5;
    const int64_t first = int64_t(std::floor(at)) - radius + 1;
    for (int64_t j = first; j < first + 2 * radius; ++j) {
      const double distance = at - double(j);
      const double weight = kernel == Kernel1d::linear ? linear(distance) : cubic(distance, -0.75);
      map.add(std::clamp<int64_t>(j, 0, inputs - 1), weight);
    }
    map.end_output();
  }
  return map;
}

AxisMap antialias_map(int64_t inputs, int64_t outputs, Kernel1d kernel, Align align) {
  AxisMap map{.inputs = inputs};
  const double scale = scale_of(inputs, outputs, align), stretch = std::max(scale, 1.0);
  const double radius = (kernel == Kernel1d::linear ? 1 : 2) * stretch;
  for (int64_t i = 0; i < outputs; ++i) {
    const double centre = scale * (double(i) + 0.5);
    const int64_t begin = std::max<int64_t>(0, int64_t(centre - radius + 0.5));
    const int64_t end = std::min(inputs, int64_t(centre + radius + 0.5));
    auto weight = [&](int64_t j) {
      const double distance = (double(j) - centre + 0.5) / stretch;
      return kernel == Kernel1d::linear ? linear(distance) : cubic(distance, -0.5);
    };
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += weight(j);
    for (int64_t j = begin; j < end; ++j) map.add(j, weight(j) / sum);
    map.end_output();
  }
  return map;
}

AxisMap mean_map(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride, int64_t padding,
                 CountPadding count_padding) {
  AxisMap map{.inputs = inputs};
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t first = i * stride - padding, last = std::min(first + kernel, inputs + padding);
    const int64_t begin = std::max<int64_t>(first, 0), end = std::min(last, inputs);
    const int64_t count = count_padding == CountPadding::yes ? last - first : end - begin;
    for (int64_t j = begin; j < end; ++j) map.add(j, 1 / double(count));
    map.end_output();
  }
  return map;
}

AxisMap reflection_map(int64_t inputs, int64_t before, int64_t after) {
  AxisMap map{.inputs = inputs};
  for (int64_t i = -before; i < inputs + after; ++i) {
    map.add(i < 0 ? -i : i < inputs ? i : 2 * (inputs - 1) - i, 1);
    map.end_output();
  }
  return map;
}

}  // namespace reprise::kernels
