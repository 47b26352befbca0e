// What batch normalisation computes for each channel, on any device: statistics that can be joined, and the
// linear functions that its elements go through. In f64: channels are few.
#pragma once

#include <cstdint>

namespace reprise::kernels {

// How the CPU cuts the samples into pieces.
inline constexpr int64_t kChannelPiece =
    1024;  ///< numbers of a channel in one, at most: sums of f32 stay short
inline constexpr int64_t kColumnSamples = 64;   ///< where a sample has one number per channel
inline constexpr int64_t kColumnChannels = 16;  ///< of one task there

/// Count, mean and summed squared deviations from the mean of some numbers.
struct Moments {
  double count, mean, squares;
};

/// Those of two sets together (Chan, Golub and LeVeque 1979): no difference of large squares.
constexpr Moments join(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, delta = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + delta * part, a.squares + b.squares + delta * delta * a.count * part};
}

/// For one channel: the sums over dy and over dy (x - mean).
struct GradientSums {
  double dy, product;
};
constexpr GradientSums join(const GradientSums& a, const GradientSums& b) {
  return {a.dy + b.dy, a.product + b.product};
}

/// Forward: y = scale * centred(x) + shift. Backward: dx = scale * dy + slope * centred(x) + shift. The mean
/// is high + low, so that x - mean keeps its digits where the mean is large.
template <class C>
struct ChannelMap {
  C high, low, scale, slope, shift;

  template <class V>
  constexpr V centred(V x) const {
    return (x - high) - low;
  }
};

template <class C>
constexpr ChannelMap<C> forward_map(double mean, double rstd, double gamma, double beta) {
  const C high = C(mean);
  return {high, C(mean - double(high)), C(gamma * rstd), C(0), C(beta)};
}

/// `count`: values per channel, 0 where the statistics do not depend on x.
template <class C>
constexpr ChannelMap<C> backward_map(double mean, double rstd, double gamma, const GradientSums& sums,
                                     int64_t count) {
  const C high = C(mean);
  const double scale = gamma * rstd, share = count > 0 ? scale / double(count) : 0;
  return {high, C(mean - double(high)), C(scale), C(-share * rstd * rstd * sums.product),
          C(-share * sums.dy)};
}

/// A running statistic after a batch.
constexpr double blended(double running, double value, double momentum) {
  return (1 - momentum) * running + momentum * value;
}

/// From the biased variance of `count` > 1 values.
constexpr double unbiased(double variance, int64_t count) {
  return variance * (double(count) / double(count - 1));
}

}  // namespace reprise::kernels
