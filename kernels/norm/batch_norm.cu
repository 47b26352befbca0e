// Batch normalisation on CUDA. The pieces of a channel (norm/channels.cuh) give partial statistics or sums;
// a warp joins those of a channel in a fixed order and writes the linear function (ChannelMap) that a second
// pass applies.
//   forward   y = scale (x - mean) + shift:               reads x twice, writes y
//   backward  dx = scale dy + slope (x - mean) + shift:   reads dy and x twice, writes dx
// A residual and relu are a part of the second pass; backward takes relu's gradient from y as it reads dy.
// Operations per element: 6 for the statistics, 3 to 5 to apply them, 4 and 4 backward: memory is the bound.
#include "reprise/kernels/norm/batch_norm.h"

#include "reprise/kernels/cuda/parameters.cuh"
#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/norm/batch_norm_math.h"
#include "reprise/kernels/norm/channels.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

/// Moments of one thread's numbers, a few at a time (Welford 1962). They are taken relative to the first
/// number, so that f32 is enough where the mean is large.
template <class C>
struct Chain {
  C origin, mean, squares;

  /// Number `step` (from 1 on) of several numbers; `share` is 1 / step.
  template <int N>
  __device__ __forceinline__ void add(const C (&numbers)[N], int step, C share) {
    if (step == 1) origin = numbers[0];
    C sum = 0, own_squares = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += numbers[i] - origin;
    const C own_mean = sum * (C(1) / C(N));
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C deviation = (numbers[i] - origin) - own_mean;
      own_squares += deviation * deviation;
    }
    const C offset = own_mean - mean;
    mean += offset * share;
    squares += own_squares + C(N) * offset * (own_mean - mean);
  }
  __device__ Moments moments(int count) const {
    return {double(count), double(origin) + double(mean), double(squares)};
  }
};

/// partial[channel, piece] = moments of x there. Bytes: x is read once.
template <class T, class Cut>
__global__ void __launch_bounds__(channel_threads)
    channel_moments_kernel(const T* x, ChannelPlan plan, Moments* partial) {
  using C = Accumulator<T>;
  REPRISE_SHARED(Moments, scratch, [channel_threads]);
  const int64_t channel = first_channel<Cut>(plan);
  REPRISE_SHARED(C, shares, [channel_chain]);  // 1, 1/2, 1/3, ...
  if (threadIdx.x < channel_chain) shares[threadIdx.x] = C(1) / C(threadIdx.x + 1);
  __syncthreads();
  Chain<C> chains[Cut::channels] = {};
  int steps = 0;
  each_place<Cut>(plan, channel, [&](int64_t at) {
    const Numbers<C, Cut::N> numbers = channel_numbers<Cut, C>(plan, x + at);
    const C share = shares[steps++];
    if constexpr (Cut::columns) {
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) chains[i].template add<1>({numbers.at[i]}, steps, share);
    } else {
      chains[0].add(numbers.at, steps, share);
    }
  });
#pragma unroll
  for (int i = 0; i < Cut::channels; ++i) {
    const Moments all = join_threads<Cut>(chains[i].moments(steps * Cut::N / Cut::channels), scratch);
    if (leads_channel<Cut>() && channel + i < plan.channels)
      partial[(channel + i) * plan.pieces + plan.piece_index()] = all;
  }
}

/// What the piece's threads need of each channel.
template <class Cut, class C>
__device__ __forceinline__ void load_maps(const ChannelPlan& plan, const ChannelMap<C>* maps, int64_t channel,
                                          ChannelMap<C> (&own)[Cut::channels]) {
#pragma unroll
  for (int i = 0; i < Cut::channels; ++i)
    if (channel + i < plan.channels) own[i] = maps[channel + i];
}

/// y = scale (x - mean) + shift, then + residual if there is one, then relu if `relu`. Bytes: x and the
/// residual are read, y written. y may be x or the residual.
template <class T, class Cut>
__global__ void __launch_bounds__(channel_threads)
    normalize_channels_kernel(const T* x, const T* residual, T* y, bool relu, ChannelPlan plan,
                              const ChannelMap<Accumulator<T>>* maps) {
  using C = Accumulator<T>;
  const int64_t channel = first_channel<Cut>(plan);
  ChannelMap<C> own[Cut::channels];
  load_maps<Cut>(plan, maps, channel, own);
  each_place<Cut>(plan, channel, [&](int64_t at) {
    Numbers<C, Cut::N> numbers = channel_numbers<Cut, C>(plan, x + at);
#pragma unroll
    for (int i = 0; i < Cut::N; ++i) {
      const ChannelMap<C>& map = own[i % Cut::channels];
      numbers.at[i] = map.centred(numbers.at[i]) * map.scale + map.shift;
    }
    if (residual) {
      const Numbers<C, Cut::N> more = channel_numbers<Cut, C>(plan, residual + at);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) numbers.at[i] += more.at[i];
    }
    if (relu) {
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) numbers.at[i] = CudaFormulas::Relu{}(numbers.at[i]);
    }
    store_channel_numbers<Cut>(plan, y + at, numbers);
  });
}

/// The gradient of what relu took, or of the result itself without one (`y` is null).
template <class Cut, class C, class T>
__device__ __forceinline__ Numbers<C, Cut::N> channel_gradient(const ChannelPlan& plan, const T* dy,
                                                               const T* y, int64_t at) {
  Numbers<C, Cut::N> gradient = channel_numbers<Cut, C>(plan, dy + at);
  if (!y) return gradient;
  const Numbers<C, Cut::N> result = channel_numbers<Cut, C>(plan, y + at);
#pragma unroll
  for (int i = 0; i < Cut::N; ++i)
    gradient.at[i] = CudaFormulas::Relu{}.gradient(gradient.at[i], result.at[i]);
  return gradient;
}

/// partial[channel, piece] = sums over dy and dy (x - mean) there. Bytes: dy, x and y (if given) are read
/// once.
template <class T, class Cut>
__global__ void __launch_bounds__(channel_threads)
    channel_gradients_kernel(const T* dy, const T* x, const T* y, ChannelPlan plan,
                             const ChannelMap<Accumulator<T>>* maps, GradientSums* partial) {
  using C = Accumulator<T>;
  REPRISE_SHARED(GradientSums, scratch, [channel_threads]);
  const int64_t channel = first_channel<Cut>(plan);
  ChannelMap<C> own[Cut::channels];
  load_maps<Cut>(plan, maps, channel, own);
  C sums[Cut::channels] = {}, products[Cut::channels] = {};
  each_place<Cut>(plan, channel, [&](int64_t at) {
    const Numbers<C, Cut::N> gradient = channel_gradient<Cut, C>(plan, dy, y, at);
    const Numbers<C, Cut::N> number = channel_numbers<Cut, C>(plan, x + at);
    C pack_sums[Cut::channels] = {}, pack_products[Cut::channels] = {};
#pragma unroll
    for (int i = 0; i < Cut::N; ++i) {
      constexpr int n = Cut::channels;
      pack_sums[i % n] += gradient.at[i];
      pack_products[i % n] += gradient.at[i] * own[i % n].centred(number.at[i]);
    }
#pragma unroll
    for (int i = 0; i < Cut::channels; ++i) {
      sums[i] += pack_sums[i];
      products[i] += pack_products[i];
    }
  });
#pragma unroll
  for (int i = 0; i < Cut::channels; ++i) {
    const GradientSums all = join_threads<Cut>(GradientSums{double(sums[i]), double(products[i])}, scratch);
    if (leads_channel<Cut>() && channel + i < plan.channels)
      partial[(channel + i) * plan.pieces + plan.piece_index()] = all;
  }
}

/// dx = scale dy + slope (x - mean) + shift; without the last two if `constant`. dresidual = dy. Either may
/// be null, or dy. Bytes: dy, x and y (if given) are read, dx and dresidual written.
template <class T, class Cut>
__global__ void __launch_bounds__(channel_threads)
    map_gradients_kernel(const T* dy, const T* x, const T* y, T* dx, T* dresidual, ChannelPlan plan,
                         bool constant, const ChannelMap<Accumulator<T>>* maps) {
  using C = Accumulator<T>;
  const int64_t channel = first_channel<Cut>(plan);
  ChannelMap<C> own[Cut::channels];
  load_maps<Cut>(plan, maps, channel, own);
  each_place<Cut>(plan, channel, [&](int64_t at) {
    Numbers<C, Cut::N> result = channel_gradient<Cut, C>(plan, dy, y, at);
    if (dresidual) store_channel_numbers<Cut>(plan, dresidual + at, result);
    if (!dx) return;
#pragma unroll
    for (int i = 0; i < Cut::N; ++i) result.at[i] *= own[i % Cut::channels].scale;
    if (!constant) {
      const Numbers<C, Cut::N> number = channel_numbers<Cut, C>(plan, x + at);
#pragma unroll
      for (int i = 0; i < Cut::N; ++i) {
        const ChannelMap<C>& map = own[i % Cut::channels];
        result.at[i] += map.centred(number.at[i]) * map.slope + map.shift;
      }
    }
    store_channel_numbers<Cut>(plan, dx + at, result);
  });
}

__device__ __forceinline__ Moments from_lane(const Moments& own, int offset) {
  return {__shfl_xor_sync(full_warp, own.count, offset), __shfl_xor_sync(full_warp, own.mean, offset),
          __shfl_xor_sync(full_warp, own.squares, offset)};
}
__device__ __forceinline__ GradientSums from_lane(const GradientSums& own, int offset) {
  return {__shfl_xor_sync(full_warp, own.dy, offset), __shfl_xor_sync(full_warp, own.product, offset)};
}

/// The pieces of one channel joined by a warp, in its first lane.
template <class V>
__device__ __forceinline__ V join_pieces(const V* partial, int64_t pieces) {
  V all{};
  for (int64_t i = int(threadIdx.x) % warp_threads; i < pieces; i += warp_threads)
    all = join(all, partial[i]);
#pragma unroll
  for (int offset = warp_threads / 2; offset > 0; offset /= 2) all = join(all, from_lane(all, offset));
  return all;
}

__device__ __forceinline__ double parameter_or(const Parameter& from, int64_t channel, double absent) {
  return from.data ? load_parameter<double>(from, channel) : absent;
}

__device__ __forceinline__ double rstd_of(double variance, double eps) { return 1 / sqrt(variance + eps); }

/// The parameters of each channel, all optional but mean and variance.
struct ChannelParameters {
  Parameter gamma, beta, mean, variance, dgamma{}, dbeta{};
};

/// A warp for each channel: mean and variance from their pieces, and the function that normalises.
template <class C>
__global__ void __launch_bounds__(channel_threads)
    finish_moments_kernel(const Moments* partial, int64_t pieces, int64_t channels, double eps,
                          ChannelParameters parameters, ChannelMap<C>* maps) {
  const int64_t channel = (int64_t(blockIdx.x) * channel_threads + int(threadIdx.x)) / warp_threads;
  if (channel >= channels) return;  // a warp leaves as one
  const Moments all = join_pieces(partial + channel * pieces, pieces);
  if (int(threadIdx.x) % warp_threads != 0) return;
  const double variance = all.count > 0 ? all.squares / all.count : 0;
  store_parameter(parameters.mean, channel, all.mean);
  store_parameter(parameters.variance, channel, variance);
  maps[channel] = forward_map<C>(all.mean, rstd_of(variance, eps), parameter_or(parameters.gamma, channel, 1),
                                 parameter_or(parameters.beta, channel, 0));
}

/// A thread for each channel: the function that normalises by given statistics.
template <class C>
__global__ void __launch_bounds__(channel_threads)
    given_moments_kernel(int64_t channels, double eps, ChannelParameters parameters, ChannelMap<C>* maps) {
  const int64_t channel = int64_t(blockIdx.x) * channel_threads + int(threadIdx.x);
  if (channel >= channels) return;
  maps[channel] =
      forward_map<C>(load_parameter<double>(parameters.mean, channel),
                     rstd_of(load_parameter<double>(parameters.variance, channel), eps),
                     parameter_or(parameters.gamma, channel, 1), parameter_or(parameters.beta, channel, 0));
}

/// A warp for each channel: dgamma and dbeta from their pieces, and the function that gives dx. `count`:
/// values per channel, 0 where the statistics are constants.
template <class C>
__global__ void __launch_bounds__(channel_threads)
    finish_gradients_kernel(const GradientSums* partial, int64_t pieces, int64_t channels, double eps,
                            int64_t count, ChannelParameters parameters, ChannelMap<C>* maps) {
  const int64_t channel = (int64_t(blockIdx.x) * channel_threads + int(threadIdx.x)) / warp_threads;
  if (channel >= channels) return;  // a warp leaves as one
  const GradientSums sums = join_pieces(partial + channel * pieces, pieces);
  if (int(threadIdx.x) % warp_threads != 0) return;
  const double rstd = rstd_of(load_parameter<double>(parameters.variance, channel), eps);
  if (parameters.dgamma.data) store_parameter(parameters.dgamma, channel, C(sums.product * rstd));
  if (parameters.dbeta.data) store_parameter(parameters.dbeta, channel, C(sums.dy));
  maps[channel] = backward_map<C>(load_parameter<double>(parameters.mean, channel), rstd,
                                  parameter_or(parameters.gamma, channel, 1), sums, count);
}

unsigned blocks_for(int64_t threads) { return unsigned(ceil_div(threads, int64_t(channel_threads))); }

simt::Launch per_piece(const Stream& stream, const char* name, unsigned grid) {
  return {.name = name, .grid = grid, .block = channel_threads, .stream = stream};
}
simt::Launch per_channel(const Stream& stream, const char* name, int64_t channels, int threads) {
  return {.name = name, .grid = blocks_for(channels * threads), .block = channel_threads, .stream = stream};
}

template <class T, class Cut>
void normalize(const Stream& stream, const ChannelShape& shape, const BatchNormArguments& v,
               const ChannelMap<Accumulator<T>>* maps) {
  const ChannelPlan plan = channel_plan<Cut>(shape, {&v.x, &v.residual, &v.y});
  if (plan.pieces == 0 || !v.y) return;
  simt::launch(per_piece(stream, "normalize_channels", channel_grid<Cut>(plan)),
               normalize_channels_kernel<Element<T>, Cut>, data_of<T>(v.x), data_of<T>(v.residual),
               data_of<T>(v.y), v.activation == Activation::relu, plan, maps);
}

template <class T, class Cut>
void forward(const Stream& stream, const ChannelShape& shape, const BatchNormArguments& v) {
  using C = Accumulator<T>;
  const ChannelPlan plan = channel_plan<Cut>(shape, {&v.x});
  Workspace partial(stream, size_t(shape.channels * plan.pieces) * sizeof(Moments));
  Workspace maps(stream, size_t(shape.channels) * sizeof(ChannelMap<C>));
  if (plan.pieces > 0)
    simt::launch(per_piece(stream, "channel_moments", channel_grid<Cut>(plan)),
                 channel_moments_kernel<Element<T>, Cut>, data_of<T>(v.x), plan, partial.as<Moments>());
  const ChannelParameters parameters{Parameter(v.gamma), Parameter(v.beta), Parameter(v.mean),
                                     Parameter(v.variance)};
  simt::launch(per_channel(stream, "finish_moments", shape.channels, warp_threads), finish_moments_kernel<C>,
               partial.as<Moments>(), plan.pieces, shape.channels, v.eps, parameters,
               maps.as<ChannelMap<C>>());
  normalize<T, Cut>(stream, shape, v, maps.as<ChannelMap<C>>());
}

template <class T, class Cut>
void inference(const Stream& stream, const ChannelShape& shape, const BatchNormArguments& v) {
  using C = Accumulator<T>;
  Workspace maps(stream, size_t(shape.channels) * sizeof(ChannelMap<C>));
  const ChannelParameters parameters{Parameter(v.gamma), Parameter(v.beta), Parameter(v.mean),
                                     Parameter(v.variance)};
  simt::launch(per_channel(stream, "given_moments", shape.channels, 1), given_moments_kernel<C>,
               shape.channels, v.eps, parameters, maps.as<ChannelMap<C>>());
  normalize<T, Cut>(stream, shape, v, maps.as<ChannelMap<C>>());
}

template <class T, class Cut>
void backward(const Stream& stream, const ChannelShape& shape, const BatchNormBackwardArguments& v) {
  using C = Accumulator<T>;
  const bool batch = v.statistics == NormStatistics::batch;
  ChannelPlan plan = channel_plan<Cut>(shape, {&v.dy, &v.x, &v.y});
  const int64_t pieces = batch || v.dgamma || v.dbeta ? plan.pieces : 0;
  Workspace partial(stream, size_t(shape.channels * pieces) * sizeof(GradientSums));
  Workspace workspace(stream, size_t(shape.channels) * sizeof(ChannelMap<C>));
  auto* maps = workspace.as<ChannelMap<C>>();
  const ChannelParameters parameters{Parameter(v.gamma),    Parameter(),         Parameter(v.mean),
                                     Parameter(v.variance), Parameter(v.dgamma), Parameter(v.dbeta)};
  if (pieces > 0) {
    simt::launch(per_channel(stream, "given_moments", shape.channels, 1), given_moments_kernel<C>,
                 shape.channels, v.eps, parameters, maps);
    simt::launch(per_piece(stream, "channel_gradients", channel_grid<Cut>(plan)),
                 channel_gradients_kernel<Element<T>, Cut>, data_of<T>(v.dy), data_of<T>(v.x),
                 data_of<T>(v.y), plan, maps, partial.as<GradientSums>());
  }
  simt::launch(per_channel(stream, "finish_gradients", shape.channels, warp_threads),
               finish_gradients_kernel<C>, partial.as<GradientSums>(), pieces, shape.channels, v.eps,
               batch ? shape.count() : 0, parameters, maps);
  plan = channel_plan<Cut>(shape, {&v.dy, &v.x, &v.y, &v.dx, &v.dresidual});
  if ((!v.dx && !v.dresidual) || plan.pieces == 0) return;
  simt::launch(per_piece(stream, "map_gradients", channel_grid<Cut>(plan)),
               map_gradients_kernel<Element<T>, Cut>, data_of<T>(v.dy), data_of<T>(v.x), data_of<T>(v.y),
               data_of<T>(v.dx), data_of<T>(v.dresidual), plan, !batch, maps);
}

/// Calls body.operator()<T, Cut>() for the dtype and the shape; not at all without channels.
template <class Body>
void dispatch(const char* op, const TensorView& x, const ChannelShape& shape, Body&& body) {
  if (shape.channels == 0) return;
  dispatch_floating(x.dtype, op, [&]<class T>() {
    dispatch_channels<T>(shape, [&]<class Cut>() { body.template operator()<T, Cut>(); });
  });
}

void batch_norm_cuda(const Stream& stream, const BatchNormArguments& v) {
  const ChannelShape shape = check_batch_norm("batch_norm", v, true);
  dispatch("batch_norm", v.x, shape, [&]<class T, class Cut>() { forward<T, Cut>(stream, shape, v); });
}

void batch_norm_inference_cuda(const Stream& stream, const BatchNormArguments& v) {
  constexpr auto op = "batch_norm_inference";
  const ChannelShape shape = check_batch_norm(op, v, false);
  dispatch(op, v.x, shape, [&]<class T, class Cut>() { inference<T, Cut>(stream, shape, v); });
}

void batch_norm_backward_cuda(const Stream& stream, const BatchNormBackwardArguments& v) {
  const ChannelShape shape = check_batch_norm_backward(v);
  dispatch("batch_norm_backward", v.x, shape,
           [&]<class T, class Cut>() { backward<T, Cut>(stream, shape, v); });
}

/// running = (1 - momentum) running + momentum value; one block. Without a momentum: `batches` counts, and
/// each batch has the same share.
__global__ void __launch_bounds__(channel_threads)
    update_running_kernel(const double* mean, const double* variance, int64_t channels, int64_t count,
                          bool has_momentum, double momentum, Parameter running_mean,
                          Parameter running_variance, int64_t* batches) {
  const int64_t batch = batches ? *batches + 1 : 0;
  if (!has_momentum) momentum = 1 / double(batch);
  __syncthreads();  // all have read it
  if (batches && threadIdx.x == 0) *batches = batch;
  for (int64_t c = threadIdx.x; c < channels; c += channel_threads) {
    store_parameter(running_mean, c, blended(load_parameter<double>(running_mean, c), mean[c], momentum));
    store_parameter(
        running_variance, c,
        blended(load_parameter<double>(running_variance, c), unbiased(variance[c], count), momentum));
  }
}

void update_running_statistics_cuda(const Stream& stream, const RunningStatisticsArguments& v, int64_t count,
                                    std::optional<double> momentum) {
  check_running_statistics(v, count, momentum);
  simt::launch({.name = "update_running", .grid = 1, .block = channel_threads, .stream = stream},
               update_running_kernel, data_of<double>(v.mean), data_of<double>(v.variance), v.mean.numel(),
               count, momentum.has_value(), momentum.value_or(0), Parameter(v.running_mean),
               Parameter(v.running_variance), data_of<int64_t>(v.batches));
}

const OnCuda batch_norm_on_cuda{batch_norm, batch_norm_cuda};
const OnCuda batch_norm_inference_on_cuda{batch_norm_inference, batch_norm_inference_cuda};
const OnCuda batch_norm_backward_on_cuda{batch_norm_backward, batch_norm_backward_cuda};
const OnCuda update_running_on_cuda{update_running_statistics, update_running_statistics_cuda};

}  // namespace
}  // namespace reprise::kernels
