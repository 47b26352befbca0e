// Group normalisation on CUDA. A row is a group of one sample: a team keeps it in registers where its length
// allows, else reads it three times forward. Backward has two launches: the sums of each channel in one
// sample, a row of its places; then dx by rows of groups, whose teams add their channels' sums. The sums of
// the samples are added in order for dgamma and dbeta. Forward moves 2, backward 5 elements for each of x.
#include "reprise/kernels/norm/group_norm.h"

#include "reprise/kernels/norm/forward.cuh"

namespace reprise::kernels {
namespace device {
namespace {

template <class T, class C>
struct GroupForward {
  Rows<T> x, y;
  const C *gamma, *beta;  ///< (groups * channels), null for 1 and 0
  C *mean, *rstd;         ///< (samples * groups), optional
  C eps;
  GroupShape shape;
};

template <class T, class C>
struct GroupBackward {
  Rows<T> dy, x, dx;  ///< by channels for the sums, by groups for dx
  const C *gamma, *mean, *rstd;
  C* sums;  ///< (samples, 2, groups * channels): of dy h, of dy
  GroupShape shape;
};

template <class C>
__device__ __forceinline__ C parameter_or(const C* parameter, int64_t channel, C absent) {
  return parameter ? parameter[channel] : absent;
}

/// Calls body(i, c) for the N columns of a row from column j on: c is the channel, counted in its group.
template <int N, class Body>
__device__ __forceinline__ void each_channel(const GroupShape& shape, int64_t j, Body&& body) {
  const bool is_short = shape.width() <= max_short_row;  // dividing 64-bit integers costs a call
  int64_t c = is_short ? int64_t(unsigned(j) / unsigned(shape.places)) : j / shape.places;
  int64_t place = j - c * shape.places;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    body(i, c);
    if (++place < shape.places) continue;
    place = 0;
    ++c;
  }
}

template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, 1) group_norm_kernel(GroupForward<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  for (int64_t row = team.first_row(); row < p.shape.rows(); row += team.row_step()) {
    const Row<T, Cut> x(team, p.x.at(row), p.shape.width());
    const RowStatistics<C> s = statistics_of<true>(team, x, p.shape.width(), p.eps);
    const int64_t first = row % p.shape.groups * p.shape.channels;
    const Pointer<T> y = p.y.at(row);
    each_pack<Cut>(team, p.shape.width(), [&](int k, int64_t j) {
      Numbers<C, Cut::N> value = x(k, j);
      each_channel<Cut::N>(p.shape, j, [&](int i, int64_t c) {
        value.at[i] =
            multiply_add((value.at[i] - s.mean - s.correction) * s.rstd,
                         parameter_or(p.gamma, first + c, C(1)), parameter_or(p.beta, first + c, C(0)));
      });
      store_pack(y + j, pack_of<T>(value));
    });
    if (team.thread() == 0) {
      if (p.mean) p.mean[row] = s.mean + s.correction;
      if (p.rstd) p.rstd[row] = s.rstd;
    }
  }
}

/// A row is a channel of one sample.
template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, 1)
    group_norm_sums_kernel(GroupBackward<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  const int64_t all = p.shape.all_channels();
  for (int64_t row = team.first_row(); row < p.shape.samples * all; row += team.row_step()) {
    const Row<T, Cut> dy(team, p.dy.at(row), p.shape.places), x(team, p.x.at(row), p.shape.places);
    const C mean = p.mean[row / p.shape.channels], rstd = p.rstd[row / p.shape.channels];
    C sums[2] = {};
    each_pack<Cut>(team, p.shape.places, [&](int k, int64_t j) {
      const Numbers<C, Cut::N> d = dy(k, j), value = x(k, j);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        sums[0] = multiply_add(d.at[i], (value.at[i] - mean) * rstd, sums[0]);
        sums[1] += d.at[i];
      }
    });
    team.reduce(Sum{}, sums, C(0));
    if (team.thread() > 0) continue;
    const int64_t sample = row / all, channel = row - sample * all;
    p.sums[2 * sample * all + channel] = sums[0];
    p.sums[(2 * sample + 1) * all + channel] = sums[1];
  }
}

/// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - h mean(g h)).
template <class Cut, class T>
__global__ void __launch_bounds__(Cut::max_block, 1)
    group_norm_dx_kernel(GroupBackward<T, typename Cut::C> p) {
  using C = typename Cut::C;
  REPRISE_SHARED(C, scratch, [2 * warp_threads]);
  const typename Cut::Team team(scratch);
  const int64_t all = p.shape.all_channels();
  for (int64_t row = team.first_row(); row < p.shape.rows(); row += team.row_step()) {
    const int64_t sample = row / p.shape.groups, first = (row - sample * p.shape.groups) * p.shape.channels;
    C means[2] = {};  // of g h, of g
    for (int64_t c = team.thread(); c < p.shape.channels; c += team.threads()) {
      const C* sums = p.sums + 2 * sample * all + first + c;
      const C gamma = parameter_or(p.gamma, first + c, C(1)) / C(p.shape.width());
      means[0] = multiply_add(gamma, sums[0], means[0]);
      means[1] = multiply_add(gamma, sums[all], means[1]);
    }
    team.reduce(Sum{}, means, C(0));
    const C mean = p.mean[row], rstd = p.rstd[row];
    const Row<T, Cut> dy(team, p.dy.at(row), p.shape.width()), x(team, p.x.at(row), p.shape.width());
    const Pointer<T> dx = p.dx.at(row);
    each_pack<Cut>(team, p.shape.width(), [&](int k, int64_t j) {
      Numbers<C, Cut::N> d = dy(k, j);
      const Numbers<C, Cut::N> value = x(k, j);
      each_channel<Cut::N>(p.shape, j, [&](int i, int64_t c) {
        const C h = (value.at[i] - mean) * rstd;
        const C g = multiply_add(d.at[i], parameter_or(p.gamma, first + c, C(1)), -means[1]);
        d.at[i] = multiply_add(-h, means[0], g) * rstd;
      });
      store_pack(dx + j, pack_of<T>(d));
    });
  }
}

template <class T>
void forward(const Stream& stream, const char* op, const GroupNormArguments& v, const GroupShape& shape) {
  using C = Accumulator<T>;
  const TensorView x = as_rows(v.x, shape.width()), y = as_rows(v.y, shape.width());
  ParameterRow<C> gamma(stream, v.gamma, shape.all_channels()), beta(stream, v.beta, shape.all_channels());
  const GroupForward<Element<T>, C> p = {rows_at<T>(x),      rows_at<T>(y),      gamma.data(), beta.data(),
                                         data_of<C>(v.mean), data_of<C>(v.rstd), C(v.eps),     shape};
  const TensorView* rows[] = {&x, &y};
  dispatch_rows<T, kRowColumns>(
      shape.rows(), shape.width(), fit_of_rows<T>(rows), [&]<class Cut>(const RowGrid& grid) {
        simt::launch({.name = op, .grid = grid.grid, .block = grid.block, .stream = stream},
                     group_norm_kernel<Cut, Element<T>>, p);
      });
}

/// Calls body.operator()<Cut>(launch, arguments) with the cut of rows of `width`.
template <class T, class Body>
void dispatch_backward(const Stream& stream, const GroupNormBackwardArguments& v, int64_t width,
                       GroupBackward<Element<T>, Accumulator<T>> p, Body&& body) {
  const TensorView dy = as_rows(v.dy, width), x = as_rows(v.x, width), dx = as_rows(v.dx, width);
  p.dy = rows_at<T>(dy);
  p.x = rows_at<T>(x);
  p.dx = rows_at<T>(dx);
  const TensorView* rows[] = {&dy, &x, &dx};
  dispatch_rows<T, kGradientColumns>(
      x.size(0), width, fit_of_rows<T>(rows), [&]<class Cut>(const RowGrid& grid) {
        simt::Launch launch{
            .name = "group_norm_backward", .grid = grid.grid, .block = grid.block, .stream = stream};
        body.template operator()<Cut>(launch, p);
      });
}

template <class T>
void backward(const Stream& stream, const GroupNormBackwardArguments& v, const GroupShape& shape) {
  using E = Element<T>;
  using C = Accumulator<T>;
  const int64_t all = shape.all_channels(), samples = v.x.numel() == 0 ? 0 : shape.samples;
  Workspace sums(stream, size_t(samples * 2 * all) * sizeof(C));
  if (samples > 0) {
    ParameterRow<C> gamma(stream, v.gamma, all);
    const GroupBackward<E, C> p = {
        {}, {}, {}, gamma.data(), data_of<C>(v.mean), data_of<C>(v.rstd), sums.as<C>(), shape};
    dispatch_backward<T>(stream, v, shape.places, p,
                         [&]<class Cut>(const simt::Launch& launch, const auto& q) {
                           simt::launch(launch, group_norm_sums_kernel<Cut, E>, q);
                         });
    if (v.dx)
      dispatch_backward<T>(stream, v, shape.width(), p,
                           [&]<class Cut>(const simt::Launch& launch, const auto& q) {
                             simt::launch(launch, group_norm_dx_kernel<Cut, E>, q);
                           });
  }
  if (v.dgamma || v.dbeta) add_pieces(stream, sums.as<C>(), samples, all, v.dgamma, &v.dbeta);
}

}  // namespace
}  // namespace device

namespace {

void group_norm_cuda(const Stream& stream, const GroupNormArguments& v) {
  constexpr auto op = "group_norm";
  const GroupShape shape = check_group_norm(v);
  if (v.x.numel() == 0) return;
  device::dispatch_row_type(op, rows_of_norm(v),
                            [&]<class T>() { device::forward<T>(stream, op, v, shape); });
}

void group_norm_backward_cuda(const Stream& stream, const GroupNormBackwardArguments& v) {
  constexpr auto op = "group_norm_backward";
  const GroupShape shape = check_group_norm_backward(v);
  device::dispatch_row_type(op, rows_of_norm(v), [&]<class T>() { device::backward<T>(stream, v, shape); });
}

const OnCuda group_norm_on_cuda{group_norm, group_norm_cuda};
const OnCuda group_norm_backward_on_cuda{group_norm_backward, group_norm_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
