// Batch normalisation on the CPU. The samples are cut into pieces by the shape alone; a piece of a channel
// stays in the cache while it is read for its mean and for its deviations from it, and the pieces are joined
// in order. Where a channel has one value per sample, the lanes of a vector are neighbouring channels, else
// neighbouring places.
#include "reprise/kernels/norm/batch_norm.h"

#include <cmath>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/elementwise/cpu_math.h"
#include "reprise/kernels/norm/batch_norm_checks.h"
#include "reprise/kernels/norm/batch_norm_math.h"

namespace reprise::kernels {
namespace {

/// How (N, C, ...) is cut into tasks: a piece is a run of places in some samples.
struct ChannelCut {
  ChannelShape shape;
  bool columns;       ///< one value per sample: lanes lie along channels
  int64_t width;      ///< channels of one task
  int64_t run, runs;  ///< places of a piece, and pieces along the places of a sample
  int64_t samples;    ///< of a piece
  int64_t pieces, tasks, grain;

  explicit ChannelCut(const ChannelShape& the_shape)
      : shape(the_shape),
        columns(shape.spatial == 1),
        width(columns ? kColumnChannels : 1),
        run(std::clamp<int64_t>(shape.spatial, 1, kChannelPiece)),
        runs((shape.spatial + run - 1) / run),
        samples(columns ? kColumnSamples : kChannelPiece / run),
        pieces((shape.samples + samples - 1) / samples * runs),
        tasks((shape.channels + width - 1) / width * pieces),
        grain(row_grain(samples * run * width)) {}

  /// Calls body(first, count) for the places of a piece in each of its samples: the offset of the first one.
  template <class Body>
  [[gnu::always_inline]] void each_run(int64_t channel, int64_t piece, Body&& body) const {
    const int64_t place = piece % runs * run, count = std::min(run, shape.spatial - place);
    const int64_t begin = piece / runs * samples, end = std::min(shape.samples, begin + samples);
    for (int64_t sample = begin; sample < end; ++sample)
      body((sample * shape.channels + channel) * shape.spatial + place, count);
  }
  int64_t count(int64_t piece) const {  ///< values of a channel in a piece
    int64_t total = 0;
    each_run(0, piece, [&](int64_t, int64_t count) { total += count; });
    return total;
  }
  /// Channels whose numbers are in a vector of L that starts at `channel`.
  int64_t channels(int64_t channel, int L) const {
    return columns ? std::min<int64_t>(L, shape.channels - channel) : 1;
  }
};

/// Calls body<L>(channel, piece) for each piece and each vector of channels, or each channel.
template <class T, class Body>
void each_piece(const ChannelCut& cut, Body&& body) {
  parallel_for(cut.tasks, cut.grain, [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / cut.pieces * cut.width;
        const int64_t last = std::min(cut.shape.channels, first + cut.width);
        for (int64_t channel = first; channel < last; channel += cut.columns ? L : 1)
          body.template operator()<L>(channel, task % cut.pieces);
      }
    });
  });
}

/// Calls body(at, left) for each vector of a piece: the offset of its first number, and how many there are.
template <int L, class Body>
[[gnu::always_inline]] inline void each_vector(const ChannelCut& cut, int64_t channel, int64_t piece,
                                               Body&& body) {
  cut.each_run(channel, piece, [&](int64_t first, int64_t count) {
    if (cut.columns)
      body(first, cut.channels(channel, L));
    else
      for_each_vector<L>(count, [&](int64_t j, int64_t left) { body(first + j, left); });
  });
}

/// The sums of the channels of a vector.
template <int L, class C>
struct ChannelSums {
  C at[L];

  [[gnu::always_inline]] ChannelSums(const ChannelCut& cut, simd::Vector<C, L> lanes) {
    simd::store(at, lanes);
    if (!cut.columns) at[0] = simd::sum_lanes<L, C>(lanes);
  }
  /// Each in the lanes of its channel.
  [[gnu::always_inline]] simd::Vector<C, L> lanes(const ChannelCut& cut) const {
    simd::Vector<C, L> none{};
    return cut.columns ? simd::load<simd::Vector<C, L>>(at) : none + at[0];
  }
};

/// ChannelMap of each channel, its numbers apart.
template <class C>
class ChannelMaps {
 public:
  explicit ChannelMaps(int64_t channels) : channels_(channels), numbers_(size_t(5 * channels)) {}

  void set(int64_t channel, const ChannelMap<C>& map) {
    const C values[] = {map.high, map.low, map.scale, map.slope, map.shift};
    for (int64_t i = 0; i < 5; ++i) numbers_[size_t(i * channels_ + channel)] = values[i];
  }
  /// Of the channels of a vector.
  template <int L>
  [[gnu::always_inline]] ChannelMap<simd::Vector<C, L>> lanes(const ChannelCut& cut, int64_t channel) const {
    auto load = [&](int64_t i) {
      const C* from = numbers_.data() + i * channels_ + channel;
      simd::Vector<C, L> none{};
      return cut.columns ? simd::load_row<C, L>(from, channels_ - channel) : none + *from;
    };
    return {load(0), load(1), load(2), load(3), load(4)};
  }

 private:
  int64_t channels_;
  std::vector<C> numbers_;
};

template <class T>
T* data_or_null(const TensorView& view) {
  return view ? view.as<T>() : nullptr;
}

double rstd_of(double variance, double eps) { return 1 / std::sqrt(variance + eps); }

/// Moments of each channel. The rounding error of a piece's mean is summed beside the squares and taken off
/// again: see Note [Accurate mean] in row_statistics.h.
template <class T, class C = Accumulator<T>>
void statistics(const ChannelCut& cut, const T* x, double* mean, double* variance) {
  std::vector<Moments> parts(size_t(cut.shape.channels * cut.pieces));
  each_piece<T>(cut, [&]<int L>(int64_t channel, int64_t piece) {
    using V = simd::Vector<C, L>;
    const C n = C(cut.count(piece));
    V total{}, deviations{}, squares{};
    each_vector<L>(cut, channel, piece,
                   [&](int64_t at, int64_t left) { total += simd::load_row<C, L>(x + at, left); });
    const ChannelSums<L, C> sums(cut, total);
    const V centre = sums.lanes(cut) / n;
    const C rest = cut.columns ? C(0) : sums.at[0] / n;  // lanes that add nothing
    each_vector<L>(cut, channel, piece, [&](int64_t at, int64_t left) {
      V deviation = simd::load_row<C, L>(x + at, left, rest) - centre;
      deviations += deviation;
      squares += deviation * deviation;
    });
    const ChannelSums<L, C> first(cut, deviations), second(cut, squares);
    for (int64_t i = 0; i < cut.channels(channel, L); ++i) {
      const double offset = double(first.at[i]) / double(n);
      const double left = double(second.at[i]) - offset * double(first.at[i]);
      parts[size_t((channel + i) * cut.pieces + piece)] = {double(n), double(sums.at[i] / n) + offset,
                                                           left < 0 ? 0 : left};
    }
  });
  for (int64_t channel = 0; channel < cut.shape.channels; ++channel) {
    Moments all{};
    for (int64_t i = 0; i < cut.pieces; ++i) all = join(all, parts[size_t(channel * cut.pieces + i)]);
    mean[channel] = all.mean;
    variance[channel] = all.count > 0 ? all.squares / all.count : 0;
  }
}

template <class T, class C = Accumulator<T>>
void normalize(const ChannelCut& cut, const BatchNormArguments& v, const ChannelMaps<C>& maps) {
  const T *x = v.x.as<T>(), *residual = data_or_null<T>(v.residual);
  T* y = v.y.as<T>();
  const bool relu = v.activation == Activation::relu;
  each_piece<T>(cut, [&]<int L>(int64_t channel, int64_t piece) {
    using V = simd::Vector<C, L>;
    const ChannelMap<V> map = maps.template lanes<L>(cut, channel);
    each_vector<L>(cut, channel, piece, [&](int64_t at, int64_t left) {
      V value = map.centred(simd::load_row<C, L>(x + at, left)) * map.scale + map.shift;
      if (residual) value += simd::load_row<C, L>(residual + at, left);
      if (relu) value = CpuFormulas::Relu{}(value);
      simd::store_row<C, L>(y + at, value, left);
    });
  });
}

/// y from x and the statistics of each channel.
template <class T, class C = Accumulator<T>>
void normalize_by(const ChannelCut& cut, const BatchNormArguments& v) {
  const int64_t channels = cut.shape.channels;
  ParameterRow<double> gamma(v.gamma, channels, 1), beta(v.beta, channels, 0), mean(v.mean, channels, 0),
      variance(v.variance, channels, 0);
  ChannelMaps<C> maps(channels);
  for (int64_t c = 0; c < channels; ++c)
    maps.set(c, forward_map<C>(mean.data()[c], rstd_of(variance.data()[c], v.eps), gamma.data()[c],
                               beta.data()[c]));
  normalize<T>(cut, v, maps);
}

void batch_norm_cpu(const Stream&, const BatchNormArguments& v) {
  const ChannelCut cut(check_batch_norm("batch_norm", v, true));
  dispatch_floating(v.x.dtype, "batch_norm", [&]<class T>() {
    if (cut.shape.channels > 0) statistics(cut, v.x.as<T>(), v.mean.as<double>(), v.variance.as<double>());
    if (v.y) normalize_by<T>(cut, v);
  });
}

void batch_norm_inference_cpu(const Stream&, const BatchNormArguments& v) {
  const ChannelCut cut(check_batch_norm("batch_norm_inference", v, false));
  dispatch_floating(v.x.dtype, "batch_norm_inference", [&]<class T>() { normalize_by<T>(cut, v); });
}

/// The gradient of what relu took, or of the result itself without one (`y` is null).
template <int L, class T, class C = Accumulator<T>>
[[gnu::always_inline]] inline simd::Vector<C, L> load_gradient(const T* dy, const T* y, int64_t at,
                                                               int64_t left) {
  const simd::Vector<C, L> gradient = simd::load_row<C, L>(dy + at, left);
  return y ? CpuFormulas::Relu{}.gradient(gradient, simd::load_row<C, L>(y + at, left)) : gradient;
}

/// Sums over the values of each channel; `maps` has the means.
template <class T, class C = Accumulator<T>>
std::vector<GradientSums> gradient_sums(const ChannelCut& cut, const BatchNormBackwardArguments& v,
                                        const ChannelMaps<C>& maps) {
  const T *dy = v.dy.as<T>(), *x = v.x.as<T>(), *y = data_or_null<T>(v.y);
  std::vector<GradientSums> parts(size_t(cut.shape.channels * cut.pieces));
  each_piece<T>(cut, [&]<int L>(int64_t channel, int64_t piece) {
    using V = simd::Vector<C, L>;
    const ChannelMap<V> map = maps.template lanes<L>(cut, channel);
    V gradients{}, products{};
    each_vector<L>(cut, channel, piece, [&](int64_t at, int64_t left) {
      const V gradient = load_gradient<L>(dy, y, at, left);
      gradients += gradient;
      products += gradient * map.centred(simd::load_row<C, L>(x + at, left));
    });
    const ChannelSums<L, C> first(cut, gradients), second(cut, products);
    for (int64_t i = 0; i < cut.channels(channel, L); ++i)
      parts[size_t((channel + i) * cut.pieces + piece)] = {double(first.at[i]), double(second.at[i])};
  });
  std::vector<GradientSums> sums(size_t(cut.shape.channels));
  for (size_t c = 0; c < sums.size(); ++c)
    for (size_t i = 0; i < size_t(cut.pieces); ++i)
      sums[c] = join(sums[c], parts[c * size_t(cut.pieces) + i]);
  return sums;
}

template <class T, class C = Accumulator<T>>
void map_gradients(const ChannelCut& cut, const BatchNormBackwardArguments& v, const ChannelMaps<C>& maps) {
  const T *dy = v.dy.as<T>(), *x = v.x.as<T>(), *y = data_or_null<T>(v.y);
  T *dx = data_or_null<T>(v.dx), *dresidual = data_or_null<T>(v.dresidual);
  const bool constant = v.statistics == NormStatistics::running;
  each_piece<T>(cut, [&]<int L>(int64_t channel, int64_t piece) {
    using V = simd::Vector<C, L>;
    const ChannelMap<V> map = maps.template lanes<L>(cut, channel);
    each_vector<L>(cut, channel, piece, [&](int64_t at, int64_t left) {
      const V gradient = load_gradient<L>(dy, y, at, left);
      if (dresidual) simd::store_row<C, L>(dresidual + at, gradient, left);
      if (!dx) return;
      V value = gradient * map.scale;
      if (!constant) value += map.centred(simd::load_row<C, L>(x + at, left)) * map.slope + map.shift;
      simd::store_row<C, L>(dx + at, value, left);
    });
  });
}

void write_parameter(const TensorView& into, int64_t channel, double value) {
  if (!into) return;
  dispatch_floating(into.dtype, "batch_norm_backward",
                    [&]<class T>() { into.as<T>()[channel * into.strides[0]] = T(Accumulator<T>(value)); });
}

template <class T, class C = Accumulator<T>>
void backward(const ChannelCut& cut, const BatchNormBackwardArguments& v) {
  const int64_t channels = cut.shape.channels;
  const bool batch = v.statistics == NormStatistics::batch;
  ParameterRow<double> gamma(v.gamma, channels, 1), mean(v.mean, channels, 0),
      variance(v.variance, channels, 0);
  ChannelMaps<C> maps(channels);
  for (int64_t c = 0; c < channels; ++c) maps.set(c, forward_map<C>(mean.data()[c], 1, 1, 0));
  std::vector<GradientSums> sums(static_cast<size_t>(channels));
  if (batch || v.dgamma || v.dbeta) sums = gradient_sums<T>(cut, v, maps);
  for (int64_t c = 0; c < channels; ++c) {
    const double rstd = rstd_of(variance.data()[c], v.eps);
    const GradientSums& sum = sums[size_t(c)];
    write_parameter(v.dgamma, c, sum.product * rstd);
    write_parameter(v.dbeta, c, sum.dy);
    maps.set(c, backward_map<C>(mean.data()[c], rstd, gamma.data()[c], sum, batch ? cut.shape.count() : 0));
  }
  if (v.dx || v.dresidual) map_gradients<T>(cut, v, maps);
}

void batch_norm_backward_cpu(const Stream&, const BatchNormBackwardArguments& v) {
  const ChannelCut cut(check_batch_norm_backward(v));
  dispatch_floating(v.x.dtype, "batch_norm_backward", [&]<class T>() { backward<T>(cut, v); });
}

void blend_into(const TensorView& running, int64_t channel, double value, double momentum) {
  dispatch_floating(running.dtype, "update_running_statistics", [&]<class T>() {
    T& entry = running.as<T>()[channel * running.strides[0]];
    entry = T(Accumulator<T>(blended(double(Accumulator<T>(entry)), value, momentum)));
  });
}

void update_running_statistics_cpu(const Stream&, const RunningStatisticsArguments& v, int64_t count,
                                   std::optional<double> momentum) {
  check_running_statistics(v, count, momentum);
  const int64_t batch = v.batches ? ++*v.batches.as<int64_t>() : 0;
  const double share = momentum ? *momentum : 1 / double(batch);
  for (int64_t c = 0; c < v.mean.numel(); ++c) {
    blend_into(v.running_mean, c, v.mean.as<double>()[c], share);
    blend_into(v.running_variance, c, unbiased(v.variance.as<double>()[c], count), share);
  }
}

}  // namespace

decltype(batch_norm) batch_norm{"batch_norm", batch_norm_cpu};
decltype(batch_norm_inference) batch_norm_inference{"batch_norm_inference", batch_norm_inference_cpu};
decltype(batch_norm_backward) batch_norm_backward{"batch_norm_backward", batch_norm_backward_cpu};
decltype(update_running_statistics) update_running_statistics{"update_running_statistics",
                                                              update_running_statistics_cpu};

}  // namespace reprise::kernels
