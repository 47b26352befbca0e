// Group normalisation on the CPU. A row, a group of one sample, is read for its mean, for its deviations from
// it and for its result; a channel's places are its vectors.
#include "reprise/kernels/norm/group_norm.h"

#include "reprise/kernels/cpu/row_access.h"
#include "reprise/kernels/norm/row_statistics.h"

namespace reprise::kernels {
namespace {

template <int L, class T, class C = Accumulator<T>>
void normalize_row(const T* x, T* y, const C* gamma, const C* beta, const GroupShape& shape,
                   const RowStatistics<C>& row) {
  for (int64_t c = 0; c < shape.channels; ++c)
    for_each_vector<L>(shape.places, [&](int64_t place, int64_t left) {
      const int64_t j = c * shape.places + place;
      auto value = (simd::load_row<C, L>(x + j, left) - row.mean - row.correction) * row.rstd;
      simd::store_row<C, L>(y + j, simd::Vector<C, L>(value * gamma[c] + beta[c]), left);
    });
}

template <class T>
void forward(const GroupNormArguments& v, const GroupShape& shape) {
  using C = Accumulator<T>;
  ParameterRow<C> gamma(v.gamma, shape.all_channels(), C(1)), beta(v.beta, shape.all_channels(), C(0));
  const TensorView rows_of_x = as_rows(v.x, shape.width()), rows_of_y = as_rows(v.y, shape.width());
  parallel_for(shape.rows(), row_grain(shape.width()), [&](int64_t begin, int64_t end) {
    RowReader<T> x(rows_of_x, shape.width());
    RowWriter<T> y(rows_of_y, shape.width());
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.template at<L>(row);
        const RowStatistics<C> statistics = statistics_of<L>(from, shape.width(), C(v.eps));
        const int64_t channel = row % shape.groups * shape.channels;
        normalize_row<L>(from, y.at(row), gamma.data() + channel, beta.data() + channel, shape, statistics);
        y.template commit<L>(row);
        if (v.mean) v.mean.as<C>()[row] = statistics.mean + statistics.correction;
        if (v.rstd) v.rstd.as<C>()[row] = statistics.rstd;
      }
    });
  });
}

/// The sums over a channel's places in one sample of dy h and of dy, with h = (x - mean) rstd.
template <class C>
struct ChannelSums {
  C products, gradients;
};

template <int L, class T, class C = Accumulator<T>>
ChannelSums<C> channel_sums(const T* dy, const T* x, int64_t places, C mean, C rstd) {
  using V = simd::Vector<C, L>;
  V gradients{};
  C products = sum_terms<L, C>(places, [&](int64_t j, int64_t left) {
    V gradient = simd::load_row<C, L>(dy + j, left);
    gradients += gradient;
    return V(gradient * ((simd::load_row<C, L>(x + j, left, mean) - mean) * rstd));
  });
  return {products, simd::sum_lanes<L, C>(gradients)};
}

/// With g = dy gamma: dx = rstd (g - mean(g) - h mean(g h)), where both means are over the row.
template <int L, class T, class C = Accumulator<T>>
void row_gradient(const T* dy, const T* x, T* dx, const C* gamma, const ChannelSums<C>* sums,
                  const GroupShape& shape, C mean, C rstd) {
  using V = simd::Vector<C, L>;
  C mean_g = 0, mean_gh = 0;
  for (int64_t c = 0; c < shape.channels; ++c) {
    mean_g += gamma[c] * sums[c].gradients / C(shape.width());
    mean_gh += gamma[c] * sums[c].products / C(shape.width());
  }
  for (int64_t c = 0; c < shape.channels; ++c)
    for_each_vector<L>(shape.places, [&](int64_t place, int64_t left) {
      const int64_t j = c * shape.places + place;
      V h = (simd::load_row<C, L>(x + j, left) - mean) * rstd;
      V g = simd::load_row<C, L>(dy + j, left) * gamma[c];
      simd::store_row<C, L>(dx + j, V((g - mean_g - h * mean_gh) * rstd), left);
    });
}

/// into(c) = the sum of part(channel_sums) over the samples, in their order.
template <class C, class Part>
void add_samples(const std::vector<ChannelSums<C>>& sums, const GroupShape& shape, const TensorView& into,
                 Part&& part) {
  if (!into) return;
  const size_t channels = size_t(shape.all_channels());
  std::vector<C> total(channels);
  for (size_t i = 0; i < sums.size(); ++i) total[i % channels] += part(sums[i]);
  dispatch_floating(into.dtype, "group_norm_backward", [&]<class T>() {
    for (size_t c = 0; c < channels; ++c) into.as<T>()[int64_t(c) * into.strides[0]] = T(total[c]);
  });
}

template <class T>
void backward(const GroupNormBackwardArguments& v, const GroupShape& shape) {
  using C = Accumulator<T>;
  ParameterRow<C> gamma(v.gamma, shape.all_channels(), C(1));
  std::vector<ChannelSums<C>> sums(size_t(shape.samples * shape.all_channels()));
  parallel_for(shape.rows(), row_grain(shape.width()), [&](int64_t begin, int64_t end) {
    const int64_t width = shape.width();
    RowReader<T> rows_of_dy(as_rows(v.dy, width), width), rows_of_x(as_rows(v.x, width), width);
    RowWriter<T> rows_of_dx(as_rows(v.dx, width), width);
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        const T *dy = rows_of_dy.template at<L>(row), *x = rows_of_x.template at<L>(row);
        const C mean = v.mean.as<C>()[row], rstd = v.rstd.as<C>()[row];
        ChannelSums<C>* of_row = sums.data() + row * shape.channels;
        for (int64_t c = 0; c < shape.channels; ++c)
          of_row[c] = channel_sums<L>(dy + c * shape.places, x + c * shape.places, shape.places, mean, rstd);
        if (!v.dx) continue;
        row_gradient<L>(dy, x, rows_of_dx.at(row), gamma.data() + row % shape.groups * shape.channels, of_row,
                        shape, mean, rstd);
        rows_of_dx.template commit<L>(row);
      }
    });
  });
  add_samples(sums, shape, v.dgamma, [](const ChannelSums<C>& channel) { return channel.products; });
  add_samples(sums, shape, v.dbeta, [](const ChannelSums<C>& channel) { return channel.gradients; });
}

void group_norm_cpu(const Stream&, const GroupNormArguments& v) {
  const GroupShape shape = check_group_norm(v);
  if (v.x.numel() == 0) return;
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), "group_norm",
                    [&]<class T>() { forward<T>(v, shape); });
}

void group_norm_backward_cpu(const Stream&, const GroupNormBackwardArguments& v) {
  const GroupShape shape = check_group_norm_backward(v);
  dispatch_floating(arithmetic_dtype(rows_of_norm(v)), "group_norm_backward", [&]<class T>() {
    backward<T>(v, v.x.numel() == 0 ? GroupShape{0, shape.groups, shape.channels, 0} : shape);
  });
}

GroupShape checked_shape(const char* op, const TensorView& x, int64_t groups) {
  check(x.rank() >= 2, op, ": needs (N, C, ...), got shape ", x.shape);
  check(groups >= 1 && x.shape[1] % groups == 0, op, ": ", x.shape[1],
        " channels do not divide into groups: ", groups);
  check(is_floating(x.dtype), op, ": needs a floating dtype, got ", x.dtype);
  int64_t places = 1;
  for (int dim = 2; dim < x.rank(); ++dim) places *= x.shape[dim];
  return {x.shape[0], groups, x.shape[1] / groups, places};
}

void check_like(const char* op, const char* name, const TensorView& view, const TensorView& x) {
  check(view.shape == x.shape, op, ": ", name, " has shape ", view.shape, ", should have ", x.shape);
  check_arithmetic(op, name, view, x);
  check(view.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", view.strides);
}

void check_statistics(const char* op, const GroupShape& shape, DType dtype, const TensorView& mean,
                      const TensorView& rstd) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  TensorView rows;
  rows.shape = {shape.samples, shape.groups, shape.width()};
  check_statistic(op, "mean", mean, rows, wide);
  check_statistic(op, "rstd", rstd, rows, wide);
}

}  // namespace

TensorView as_rows(TensorView view, int64_t width) {
  if (!view) return {};
  view.shape = {view.numel() / width, width};
  view.strides = {width, 1};
  return view;
}

GroupShape check_group_norm(const GroupNormArguments& v) {
  constexpr auto op = "group_norm";
  const GroupShape shape = checked_shape(op, v.x, v.groups);
  check_like(op, "x", v.x, v.x);
  check_like(op, "y", v.y, v.x);
  check_parameter(op, "gamma", v.gamma, shape.all_channels());
  check_parameter(op, "beta", v.beta, shape.all_channels());
  check_statistics(op, shape, v.x.dtype, v.mean, v.rstd);
  return shape;
}

GroupShape check_group_norm_backward(const GroupNormBackwardArguments& v) {
  constexpr auto op = "group_norm_backward";
  const GroupShape shape = checked_shape(op, v.x, v.groups);
  check_like(op, "x", v.x, v.x);
  check_like(op, "dy", v.dy, v.x);
  if (v.dx) check_like(op, "dx", v.dx, v.x);
  for (auto [name, view] : {std::pair("gamma", &v.gamma), {"dgamma", &v.dgamma}, {"dbeta", &v.dbeta}})
    check_parameter(op, name, *view, shape.all_channels());
  check(v.x.numel() == 0 || (v.mean && v.rstd), op, ": needs the mean and rstd of the forward pass");
  check_statistics(op, shape, v.x.dtype, v.mean, v.rstd);
  return shape;
}

decltype(group_norm) group_norm{"group_norm", group_norm_cpu};
decltype(group_norm_backward) group_norm_backward{"group_norm_backward", group_norm_backward_cpu};

}  // namespace reprise::kernels
