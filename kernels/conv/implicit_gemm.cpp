// With windows X (C P Q, N I J), results Y (O, N I J) and the weight W (O, C P Q):
//
//   Y = W X + bias        dW = dY X^T        dX = W'^T X'
//
// where X' are windows of dY: a pixel of dX whose row is a modulo the stride sees the taps p with
// a + padding - p dilation divisible by it, so each phase of dX is a convolution of its own.
//
// Images are taken in slabs.
#include "reprise/kernels/conv/implicit_gemm.h"

#include <algorithm>

#include "reprise/kernels/conv/phase_images.h"
#include "reprise/kernels/conv/window_operands.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/gemm/matrix.h"

namespace reprise::kernels::conv2d_detail {
namespace {

using gemm_detail::ceil_div;
using gemm_detail::PackSource;

template <class T, class A, class B, class Result>
void product(const A& a, const B& b, const Result& result, int64_t m, int64_t n, int64_t k) {
  gemm_detail::multiply_matrices<T>(a, b, result, m, n, k, matmul_precision());
}

/// Images of a slab: their copies stay in the cache while they are packed, and there are pixels enough for the
/// other operand to be packed once for many. A function of the shape alone.
int64_t slab_of(int64_t images, int64_t image_numel, int64_t pixels, DType dtype) {
  constexpr int64_t slab_bytes = 1 << 20, slab_pixels = 2048;
  const int64_t in_cache = slab_bytes / std::max<int64_t>(1, image_numel * int64_t(size_of(dtype)));
  return std::clamp(std::max(in_cache, ceil_div(slab_pixels, pixels)), int64_t(1),
                    std::max<int64_t>(1, images));
}

/// The bordered copy of a slab of images in `dtype`, or the images themselves where that is the same.
class SlabImages {
 public:
  SlabImages(const Stream& stream, const TensorView& images, const PhaseImages& layout, DType dtype,
             int64_t slab)
      : images_(images),
        layout_(layout),
        dtype_(dtype),
        plain_(layout.is_plain(images.size(2), images.size(3)) && images.dtype == dtype),
        memory_(stream, plain_ ? 0 : size_t(slab * layout.image_stride()) * size_of(dtype)) {}

  /// Makes images [begin, end) those of this slab.
  void take(int64_t begin, int64_t end) {
    const TensorView slab = slice(images_, 0, begin, end);
    data_ = plain_ ? slab.data : memory_.as<void>();
    numel_ = (end - begin) * layout_.image_stride();
    if (!plain_) split_images(slab, layout_, dtype_, data_);
  }

  template <class T>
  WindowMatrix<T> windows(Size2 count, int64_t channel, const std::vector<int64_t>& taps) const {
    const T* data = static_cast<const T*>(data_);
    return {data + channel * layout_.channel_stride(),
            data + numel_,
            {count.height, count.width, layout_.image_stride(), layout_.size.width},
            taps.data()};
  }

 private:
  TensorView images_;
  PhaseImages layout_;
  DType dtype_;
  bool plain_;
  device::Workspace memory_;
  void* data_ = nullptr;
  int64_t numel_ = 0;
};

/// Pixels that `count` windows see along a side.
int64_t seen(int64_t count, int64_t kernel, int64_t stride, int64_t dilation) {
  return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

/// The windows of a convolution over its bordered images.
struct Forward {
  Size2 count;         ///< windows of an image
  PhaseImages layout;  ///< of x
  std::vector<int64_t> taps;

  Forward(const TensorView& x, const TensorView& weight, const Conv2dOptions& o, Size2 windows)
      : count(windows), layout{x.size(1), o.stride, o.padding, 0} {
    const int64_t height = seen(count.height, weight.size(2), o.stride.height, o.dilation.height);
    const int64_t width = seen(count.width, weight.size(3), o.stride.width, o.dilation.width);
    layout.size = {ceil_div(height, o.stride.height), ceil_div(width, o.stride.width)};
    taps.reserve(size_t(weight.size(1) * weight.size(2) * weight.size(3)));
    for (int64_t c = 0; c < weight.size(1); ++c)
      for (int64_t p = 0; p < weight.size(2); ++p)
        for (int64_t q = 0; q < weight.size(3); ++q)
          taps.push_back(layout.offset(c, p * o.dilation.height, q * o.dilation.width));
  }
};

/// One side of the gradient for x: for each phase, the taps that reach it and how far from a pixel they look.
struct Reach {
  struct Tap {
    int64_t at, shift;
  };
  std::vector<std::vector<Tap>> phases;
  int64_t before = 0, size = 0;  ///< the border that dY needs, and its size with borders

  Reach(int64_t pixels, int64_t windows, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
      : phases(size_t(stride)) {
    int64_t after = 0;
    for (int64_t phase = 0; phase < stride; ++phase)
      for (int64_t p = 0; p < kernel; ++p) {
        const int64_t reach = phase + padding - p * dilation;
        if (reach % stride != 0) continue;
        phases[size_t(phase)].push_back({p, reach / stride});
        before = std::max(before, -reach / stride);
        after = std::max(after, reach / stride);
      }
    size = before + std::max(windows, after + ceil_div(pixels, stride));
  }
};

/// Taps of one phase of dX: where they look in dY, and which numbers of the weight they are.
struct PhaseTaps {
  std::vector<int64_t> pixels, weights;

  PhaseTaps(const std::vector<Reach::Tap>& rows, const std::vector<Reach::Tap>& columns, int64_t out,
            const PhaseImages& layout, const TensorView& weight) {
    for (int64_t o = 0; o < out; ++o)
      for (const auto& [p, down] : rows)
        for (const auto& [q, right] : columns) {
          pixels.push_back(layout.offset(o, layout.border.height + down, layout.border.width + right));
          weights.push_back(o * weight.stride(0) + p * weight.stride(2) + q);
        }
  }
};

}  // namespace

bool suits_implicit(const Shape& x, const Shape& weight, const Conv2dOptions& o) {
  const Windows windows{{weight[2], weight[3]}, o.stride, o.padding, o.dilation};
  const Size2 count = windows.count(x[2], x[3]);
  // Doubles, because these may not fit an int64_t. A phase has as many pixels as windows see along a side.
  auto copied = [](int64_t windows_along, int64_t kernel, int64_t stride, int64_t dilation) {
    return double(stride) * double(ceil_div(seen(windows_along, kernel, stride, dilation), stride));
  };
  const double bordered = copied(count.height, weight[2], o.stride.height, o.dilation.height) *
                          copied(count.width, weight[3], o.stride.width, o.dilation.width);
  const double unfolded = double(count.height) * double(count.width) * double(weight[2]) * double(weight[3]);
  return bordered <= 4 * unfolded;
}

void conv2d_implicit(const Stream& stream, const Conv2dArguments& arguments) {
  const auto& [x, weight, bias, options, y] = arguments;
  if (y.numel() == 0) return;
  const int64_t groups = options.groups, in = weight.size(1), out = weight.size(0) / groups;
  const int64_t pixels = y.size(2) * y.size(3), k = in * weight.size(2) * weight.size(3);
  const Forward forward(x, weight, options, {y.size(2), y.size(3)});
  const int64_t images = x.size(0), slab = slab_of(images, forward.layout.image_stride(), pixels, y.dtype);
  SlabImages source(stream, x, forward.layout, y.dtype, slab);
  dispatch_floating(y.dtype, "conv2d", [&]<class T>() {
    for (int64_t begin = 0; begin < images; begin += slab) {
      const int64_t end = std::min(images, begin + slab);
      source.take(begin, end);
      for (int64_t g = 0; g < groups; ++g) {
        const PixelsByTaps<T> windows{source.windows<T>(forward.count, g * in, forward.taps)};
        const ImageOutput<T> result{y.as<T>() + (begin * groups + g) * out * pixels, groups * out * pixels,
                                    pixels, pixels, bias ? Stored<T>(bias) + g * out : Stored<T>()};
        const PackSource<T> weights{weight.as<T>() + g * out * k, k, 1};
        product<T>(weights, windows, result, out, (end - begin) * pixels, k);
      }
    }
  });
}

void conv2d_dweight_implicit(const Stream& stream, const Conv2dDweightArguments& arguments, Before before) {
  const auto& [dy, x, options, dweight] = arguments;
  const bool adds = before == Before::added_to;
  if (dweight.numel() == 0) return;
  if (dy.numel() == 0) return adds ? void() : fill(stream, dweight, 0);
  const int64_t groups = options.groups, in = dweight.size(1), out = dweight.size(0) / groups;
  const int64_t pixels = dy.size(2) * dy.size(3), n = in * dweight.size(2) * dweight.size(3);
  const Forward forward(x, dweight, options, {dy.size(2), dy.size(3)});
  // Sums between slabs are rounded to dweight's dtype, so for half types there is one slab.
  const int64_t images = x.size(0);
  const int64_t slab =
      size_of(dweight.dtype) > 2 ? slab_of(images, forward.layout.image_stride(), pixels, dy.dtype) : images;
  SlabImages source(stream, x, forward.layout, dy.dtype, slab);
  // The sum of all slabs is complete before what is there is added to it, so several are summed beside it.
  const bool apart = adds && slab < images;
  const device::Workspace scratch(stream, apart ? size_t(dweight.numel()) * size_of(dweight.dtype) : 0);
  TensorView sum = dweight;
  if (apart) sum.data = scratch.as<void>();
  std::vector<int64_t> channels(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) channels[size_t(o)] = o * pixels;
  dispatch_floating(dy.dtype, "conv2d", [&]<class T>() {
    for (int64_t begin = 0; begin < images; begin += slab) {
      const int64_t end = std::min(images, begin + slab), image = groups * out * pixels;
      source.take(begin, end);
      for (int64_t g = 0; g < groups; ++g) {
        const TapsByPixels<T> gradients{{dy.as<T>() + begin * image + g * out * pixels,
                                         dy.as<T>() + end * image,
                                         {1, pixels, image, pixels},
                                         channels.data()}};
        const TapsByPixels<T> windows{source.windows<T>(forward.count, g * in, forward.taps)};
        const gemm_detail::Output<T> result{.c = {Stored<T>(sum) + g * out * n, n},
                                            .accumulate = begin > 0 || (adds && !apart)};
        product<T>(gradients, windows, result, out, n, (end - begin) * pixels);
      }
    }
  });
  if (apart) add_scaled(stream, sum, 1, dweight);
}

void conv2d_dx_implicit(const Stream& stream, const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  if (dx.numel() == 0) return;
  if (dy.numel() == 0) return fill_channels(stream, dx, bias);
  const auto& [stride, padding, dilation, groups] = options;
  const int64_t in = weight.size(1), out = weight.size(0) / groups, images = dx.size(0);
  const Reach rows(dx.size(2), dy.size(2), weight.size(2), stride.height, padding.height, dilation.height);
  const Reach columns(dx.size(3), dy.size(3), weight.size(3), stride.width, padding.width, dilation.width);
  const PhaseImages layout{dy.size(1), 1, {rows.before, columns.before}, {rows.size, columns.size}};
  // Phases of dX; with strides of 1 there is one, dX itself.
  const PhaseImages phases{
      dx.size(1), stride, 0, {ceil_div(dx.size(2), stride.height), ceil_div(dx.size(3), stride.width)}};
  const bool direct = phases.is_plain(dx.size(2), dx.size(3));
  const int64_t slab = slab_of(images, layout.image_stride(), phases.phase_numel(), dx.dtype);
  SlabImages source(stream, dy, layout, dy.dtype, slab);
  std::vector<PhaseTaps> all_taps;
  for (const auto& down : rows.phases)
    for (const auto& right : columns.phases) all_taps.emplace_back(down, right, out, layout, weight);
  const device::Workspace apart(stream,
                                direct ? 0 : size_t(slab * phases.image_stride()) * size_of(dx.dtype));
  dispatch_floating(dx.dtype, "conv2d", [&]<class T>() {
    for (int64_t begin = 0; begin < images; begin += slab) {
      const int64_t end = std::min(images, begin + slab);
      source.take(begin, end);
      T* to = direct ? dx.as<T>() + begin * phases.image_stride() : apart.as<T>();
      for (size_t a = 0; a < rows.phases.size(); ++a)
        for (size_t b = 0; b < columns.phases.size(); ++b) {
          const PhaseTaps& taps = all_taps[a * columns.phases.size() + b];
          for (int64_t g = 0; g < groups; ++g) {
            const PixelsByTaps<T> windows{source.windows<T>(phases.size, g * out, taps.pixels)};
            const WeightByTaps<T> weights{weight.as<T>() + g * out * weight.stride(0), weight.stride(1),
                                          taps.weights.data()};
            const int64_t phase = int64_t(a) * stride.width + int64_t(b);
            const ImageOutput<T> result{to + g * in * phases.channel_stride() + phase * phases.phase_numel(),
                                        phases.image_stride(), phases.channel_stride(), phases.phase_numel(),
                                        bias ? Stored<T>(bias) + g * in : Stored<T>()};
            product<T>(weights, windows, result, in, (end - begin) * phases.phase_numel(),
                       int64_t(taps.pixels.size()));
          }
        }
      if (!direct) join_images(to, phases, slice(dx, 0, begin, end));
    }
  });
}

}  // namespace reprise::kernels::conv2d_detail
