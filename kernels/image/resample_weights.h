// The weights of a resampling along one axis, as Pillow's Resample.c (up to version 12) has them.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::kernels {

/// Triangle of support 1, or the cubic of Keys 1981 with a = -0.5, of support 2; both are widened by the scale
/// where the image shrinks (antialias).
enum class Filter { bilinear, bicubic };

/// Bits after the point of a weight.
constexpr int weight_bits = 22;

/// How an axis is resampled: `in` pixels become `out`. A part of either may be all that is there or wanted: it
/// begins at `in_begin`, `out_begin`.
struct ResampleAxis {
  int64_t in = 0;         ///< pixels of the whole image
  int64_t out = 0;        ///< that they become
  int64_t in_begin = 0;   ///< the first pixel that is there
  int64_t out_begin = 0;  ///< the first pixel that is wanted
};

/// The pixels [begin, end) that an output pixel is the weighted sum of.
struct Window {
  int64_t begin = 0;                            ///< the first
  int64_t end = 0;                              ///< the one behind the last
  int64_t size() const { return end - begin; }  ///< pixels
};
/// That of output pixel `index`, where `in` pixels become `out`.
Window resample_window(int64_t in, int64_t out, int64_t index, Filter filter);

/// The pixels of the input that the output pixels [begin, end) read.
Window resample_reads(int64_t in, int64_t out, int64_t begin, int64_t end, Filter filter);

/// The windows of `count` output pixels from `axis.out_begin` on, and their weights.
struct AxisWeights {
  std::vector<Window> windows;   ///< begin and end count from axis.in_begin
  std::vector<int32_t> weights;  ///< `taps` for each window, zeros behind its size
  int64_t taps = 0;              ///< numbers that a window has room for
  std::vector<double> exact;     ///< of one window, before rounding

  /// Uses the memory again.
  void compute(const ResampleAxis& axis, int64_t count, Filter filter);
  int64_t count() const { return int64_t(windows.size()); }  ///< output pixels
  /// The weights of one of them: `taps` numbers.
  const int32_t* of(int64_t index) const { return weights.data() + index * taps; }
};

}  // namespace reprise::kernels
