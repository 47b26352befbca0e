// Convolution by unfold and gemm. With X the unfolded windows (N I J, P Q C) and Y the result with its
// channels last (N I J, O):  Y = X W^T + bias,  dX = dY W,  dW = dY^T X,  group by group.
//
// Images and weights are copied to channels last before, and back: transposing copies are cheap beside windows whose
// channels are apart. Windows of one pixel side by side are the images themselves. Images are taken in slabs, so that
// images, windows and results need no more than `slab_bytes`, or what one image needs.
#include "reprise/kernels/conv/conv2d_by_gemm.h"

#include <algorithm>

#include "reprise/kernels/conv/unfold.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise::kernels::conv2d_detail {
namespace {

/// Whether channels that fit no packs of a GPU get others beside them, of zeros.
enum class Padding : uint8_t { none, to_packs };

/// What the slab-wise products need to know of a convolution.
struct Problem {
  const Stream& stream;
  Conv2dOptions options;
  Windows windows;
  DType dtype;
  int64_t images, height, width, out, groups;
  int64_t channels;  ///< of x, and zeros where those would fit no packs of a GPU
  Size2 count;       ///< windows of an image
  int64_t row_size;  ///< channels P Q

  /// In the dtype of y, or of what stands in its place.
  Problem(const Stream& s, const TensorView& x, const TensorView& weight, const TensorView& y,
          const Conv2dOptions& o, Padding padding = Padding::to_packs)
      : stream(s),
        options(o),
        windows{{weight.size(2), weight.size(3)}, o.stride, o.padding, o.dilation},
        dtype(y.dtype),
        images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        out(weight.size(0)),
        groups(o.groups),
        channels(padding == Padding::to_packs ? padded_channels(x.size(1)) : x.size(1)),
        count(windows.count(x.size(2), x.size(3))),
        row_size(channels * weight.size(2) * weight.size(3)) {}

  int64_t rows_of(int64_t n) const { return n * count.height * count.width; }

  /// The three channels of a photograph would be moved one by one; with five channels of zeros beside them they are moved at once.
  int64_t padded_channels(int64_t given) const {
    const int64_t pack = 16 / int64_t(size_of(dtype));
    const bool pads = stream.device().type == DeviceType::cuda && groups == 1 && !is_pointwise();
    return pads ? (given + pack - 1) / pack * pack : given;
  }

  /// Whether each pixel is a window.
  bool is_pointwise() const {
    auto is = [](Size2 size, int64_t value) { return size.height == value && size.width == value; };
    return is(windows.kernel, 1) && is(windows.stride, 1) && is(windows.padding, 0);
  }

  /// Images in a slab.
  int64_t slab() const {
    const size_t slab_bytes = stream.device().type == DeviceType::cpu ? 32 << 20 : 256 << 20;
    const int64_t windows_of_image = is_pointwise() ? 0 : rows_of(1) * row_size;
    const size_t image_bytes =
        size_t(height * width * channels + windows_of_image + rows_of(1) * out) * size_of(dtype);
    return std::clamp<int64_t>(int64_t(slab_bytes / std::max<size_t>(1, image_bytes)), 1,
                               std::max<int64_t>(1, images));
  }
};

/// A tensor in scratch memory.
struct Scratch {
  device::Workspace memory;
  TensorView view;

  Scratch(const Stream& stream, const Shape& shape, DType dtype)
      : memory(stream, size_t(numel_of(shape)) * size_of(dtype)),
        view{memory.as<void>(), shape, contiguous_strides(shape), dtype, stream.device()} {}
};

/// (N, C, H, W) as (N, H, W, C): images, and weights (O, C / G, P, Q).
TensorView channels_last(const TensorView& x) { return permute(x, {0, 2, 3, 1}); }

TensorView reshaped(const TensorView& x, const Shape& shape) {
  TensorView view;
  invariant(try_reshape(x, shape, view), "conv2d: scratch is not contiguous");
  return view;
}

/// The channels that are given, of those in scratch memory; the others are zeros.
TensorView given_channels(const TensorView& scratch, int64_t given) { return slice(scratch, 3, 0, given); }

/// What the products of a slab read and write: images with channels last, their windows as rows, and rows of results.
struct Slab {
  const Problem& p;
  Scratch images, columns, rows;

  Slab(const Problem& problem, int64_t most)
      : p(problem),
        images(p.stream, {most, p.height, p.width, p.channels}, p.dtype),
        columns(p.stream, {p.is_pointwise() ? 0 : p.rows_of(most), p.row_size}, p.dtype),
        rows(p.stream, {p.rows_of(most), p.out}, p.dtype) {}

  /// Zeros in the channels that are not given; once, before images are copied.
  void fill_other_channels(int64_t given) const {
    if (p.channels > given) fill(p.stream, slice(images.view, 3, given, p.channels), 0);
  }

  TensorView images_of(int64_t n) const { return slice(images.view, 0, 0, n); }
  TensorView rows_of(int64_t n) const { return slice(rows.view, 0, 0, p.rows_of(n)); }
  TensorView rows_as_images(int64_t n) const {
    return reshaped(rows_of(n), {n, p.count.height, p.count.width, p.out});
  }
  /// The windows of n images, (N I J, P Q C).
  TensorView columns_of(int64_t n) const {
    return p.is_pointwise() ? reshaped(images_of(n), {p.rows_of(n), p.row_size})
                            : slice(columns.view, 0, 0, p.rows_of(n));
  }
  /// The windows of images [begin, end) of x, written.
  TensorView unfolded(const TensorView& x, int64_t begin, int64_t end) const {
    const TensorView last = images_of(end - begin), windows = columns_of(end - begin);
    copy(p.stream, channels_last(slice(x, 0, begin, end)), given_channels(last, x.size(1)));
    if (!p.is_pointwise()) unfold(p.stream, last, p.windows, p.groups, windows);
    return windows;
  }
};

/// Columns of group g in a matrix that holds all groups side by side.
TensorView group_columns(const TensorView& matrix, int64_t g, int64_t groups) {
  const int64_t width = matrix.size(1) / groups;
  return slice(matrix, 1, g * width, (g + 1) * width);
}

/// Weights with channels last, (O, P, Q, C / G), in scratch memory, where the channels that are not given are zeros.
struct WeightScratch : Scratch {
  WeightScratch(const Problem& p, const TensorView& weight, DType dtype)
      : Scratch(p.stream, {p.out, weight.size(2), weight.size(3), p.channels / p.groups}, dtype) {}
  TensorView given(int64_t channels) const { return given_channels(view, channels); }
  void write(const Problem& p, const TensorView& weight) const {
    if (view.size(3) > weight.size(1)) fill(p.stream, view, 0);
    copy(p.stream, channels_last(weight), given(weight.size(1)));
  }
};

/// The weights of group g as a matrix (O / G, P Q C / G).
TensorView group_weight(const Problem& p, const TensorView& weight, int64_t g) {
  const int64_t rows = p.out / p.groups;
  return slice(reshaped(weight, {p.out, p.row_size / p.groups}), 0, g * rows, (g + 1) * rows);
}

}  // namespace

bool has_dtype_or_f32(const TensorView& parameter, const TensorView& images) {
  return parameter.dtype == images.dtype || (size_of(images.dtype) == 2 && parameter.dtype == DType::f32);
}

void check_conv2d(const Conv2dArguments& arguments) {
  const auto& [x, weight, bias, options, y] = arguments;
  const Shape want = conv2d_shape(x.shape, weight.shape, options);
  check(y.shape == want, "conv2d: the result is ", y.shape, ", should be ", want);
  check(is_floating(y.dtype) && weight.dtype == y.dtype && has_dtype_or_f32(x, y),
        "conv2d: dtypes differ: x ", x.dtype, ", weight ", weight.dtype, ", y ", y.dtype);
  check(x.is_contiguous() && weight.is_contiguous() && y.is_contiguous(),
        "conv2d: x, weight and y must be contiguous; strides are ", x.strides, ", ", weight.strides, ", ",
        y.strides);
  check(!bias || (has_dtype_or_f32(bias, y) && bias.shape == Shape{weight.size(0)} && bias.is_contiguous()),
        "conv2d: bias is ", bias.dtype, " ", bias.shape, ", needs ", y.dtype, " (", weight.size(0), ",)");
}

void check_conv2d_dx(const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  check_conv2d({.x = dx, .weight = weight, .options = options, .y = dy});
  check(dx.dtype == dy.dtype, "conv2d: dtypes differ: dx ", dx.dtype, ", dy ", dy.dtype);
  check(!bias || (has_dtype_or_f32(bias, dx) && bias.shape == Shape{dx.size(1)} && bias.is_contiguous()),
        "conv2d: bias of the transposed one is ", bias.dtype, " ", bias.shape, ", needs ", dx.dtype, " (",
        dx.size(1), ",)");
}

void fill_channels(const Stream& stream, const TensorView& dx, const TensorView& bias) {
  if (!bias) return fill(stream, dx, 0);
  TensorView channels;  // (C, 1, 1)
  invariant(try_reshape(bias, {bias.size(0), 1, 1}, channels), "conv2d: bias is not contiguous");
  copy(stream, expand(channels, dx.shape), dx);
}

void conv2d_by_gemm(const Stream& stream, const Conv2dArguments& arguments) {
  const auto& [x, weight, bias, options, y] = arguments;
  const Problem p(stream, x, weight, y, options);
  if (y.numel() == 0) return;
  const int64_t most = p.slab();
  const Slab slab(p, most);
  const WeightScratch weights(p, weight, weight.dtype);
  weights.write(p, weight);
  slab.fill_other_channels(x.size(1));
  for (int64_t begin = 0; begin < p.images; begin += most) {
    const int64_t end = std::min(p.images, begin + most), n = end - begin;
    const TensorView windows = slab.unfolded(x, begin, end), out = slab.rows_of(n);
    for (int64_t g = 0; g < p.groups; ++g) {
      const int64_t width = p.out / p.groups;
      gemm(stream, {.a = group_columns(windows, g, p.groups),
                    .b = transpose(group_weight(p, weights.view, g), 0, 1),
                    .c = group_columns(out, g, p.groups),
                    .epilogue = {.bias = bias ? slice(bias, 0, g * width, (g + 1) * width) : TensorView()}});
    }
    copy(stream, slab.rows_as_images(n), channels_last(slice(y, 0, begin, end)));
  }
}

void conv2d_dx_by_gemm(const Stream& stream, const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  // A bias has a number for each given channel, so there is no padding beside one.
  const Problem p(stream, dx, weight, dy, options, bias ? Padding::none : Padding::to_packs);
  if (dx.numel() == 0) return;
  if (dy.numel() == 0) return fill_channels(stream, dx, bias);
  const int64_t most = p.slab();
  const Slab slab(p, most);
  const WeightScratch weights(p, weight, weight.dtype);
  weights.write(p, weight);
  for (int64_t begin = 0; begin < p.images; begin += most) {
    const int64_t end = std::min(p.images, begin + most), n = end - begin;
    const TensorView windows = slab.columns_of(n), out = slab.rows_of(n), images = slab.images_of(n);
    copy(stream, channels_last(slice(dy, 0, begin, end)), slab.rows_as_images(n));
    for (int64_t g = 0; g < p.groups; ++g)
      gemm(stream, {.a = group_columns(out, g, p.groups),
                    .b = group_weight(p, weights.view, g),
                    .c = group_columns(windows, g, p.groups)});
    if (bias || !p.is_pointwise()) fold(stream, windows, p.windows, p.groups, images, bias);
    copy(stream, given_channels(images, dx.size(1)), channels_last(slice(dx, 0, begin, end)));
  }
}

void conv2d_dweight_by_gemm(const Stream& stream, const Conv2dDweightArguments& arguments, Before before) {
  const auto& [dy, x, options, dweight] = arguments;
  const bool adds = before == Before::added_to;
  const Problem p(stream, x, dweight, dy, options);
  if (dweight.numel() == 0) return;
  if (dy.numel() == 0) return adds ? void() : fill(stream, dweight, 0);
  const int64_t most = p.slab();
  const Slab slab(p, most);
  const WeightScratch sums(p, dweight,
                           size_of(dweight.dtype) > 2 ? dweight.dtype : DType::f32);  // of all slabs
  slab.fill_other_channels(x.size(1));
  for (int64_t begin = 0; begin < p.images; begin += most) {
    const int64_t end = std::min(p.images, begin + most), n = end - begin;
    const TensorView windows = slab.unfolded(x, begin, end), out = slab.rows_of(n);
    copy(stream, channels_last(slice(dy, 0, begin, end)), slab.rows_as_images(n));
    for (int64_t g = 0; g < p.groups; ++g)
      gemm(stream, {.a = transpose(group_columns(out, g, p.groups), 0, 1),
                    .b = group_columns(windows, g, p.groups),
                    .c = group_weight(p, sums.view, g),
                    .epilogue = {.accumulate = begin > 0}});
  }
  const TensorView sum = sums.given(dweight.size(1)), to = channels_last(dweight);
  adds ? add_scaled(stream, sum, 1, to) : copy(stream, sum, to);
}

}  // namespace reprise::kernels::conv2d_detail
