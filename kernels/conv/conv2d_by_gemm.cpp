// Convolution by unfold and gemm. With X the unfolded windows (N I J, C P Q) and Y the result with its
// channels last (N I J, O):  Y = X W^T + bias,  dX = dY W,  dW = dY^T X,  group by group.
//
// Images are taken in slabs, so that the unfolded windows need no more than `slab_bytes`.
#include "reprise/kernels/conv/conv2d_by_gemm.h"

#include <algorithm>

#include "reprise/kernels/conv/unfold.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise::kernels::conv2d_detail {
namespace {

/// What the slab-wise products need to know of a convolution.
struct Problem {
  const Stream& stream;
  Conv2dOptions options;
  Windows windows;
  DType dtype;
  int64_t images, out, groups;
  Size2 count;       ///< windows of an image
  int64_t row_size;  ///< C P Q

  Problem(const Stream& s, const TensorView& x, const TensorView& weight, const Conv2dOptions& o)
      : stream(s),
        options(o),
        windows{{weight.size(2), weight.size(3)}, o.stride, o.padding, o.dilation},
        dtype(x.dtype),
        images(x.size(0)),
        out(weight.size(0)),
        groups(o.groups),
        count(windows.count(x.size(2), x.size(3))),
        row_size(x.size(1) * weight.size(2) * weight.size(3)) {}

  int64_t rows_of(int64_t n) const { return n * count.height * count.width; }
  size_t bytes_of(int64_t n, int64_t width) const { return size_t(rows_of(n) * width) * size_of(dtype); }

  /// Images in a slab.
  int64_t slab() const {
    const size_t slab_bytes = stream.device().type == DeviceType::cpu ? 32 << 20 : 256 << 20;
    const size_t image_bytes = std::max<size_t>(1, bytes_of(1, row_size));
    return std::clamp<int64_t>(int64_t(slab_bytes / image_bytes), 1, std::max<int64_t>(1, images));
  }
};

/// A matrix (rows, width) in scratch memory.
struct Scratch {
  device::Workspace memory;
  TensorView view;

  Scratch(const Problem& p, int64_t images, int64_t width) : memory(p.stream, p.bytes_of(images, width)) {
    const Shape shape{p.rows_of(images), width};
    view = {memory.as<void>(), shape, contiguous_strides(shape), p.dtype, p.stream.device()};
  }
};

/// Images [begin, end) of y as a matrix with channels last would be: (n, I, J, O), any strides.
TensorView channels_last(const TensorView& y, int64_t begin, int64_t end) {
  return permute(slice(y, 0, begin, end), {0, 2, 3, 1});
}
/// The scratch matrix as (n, I, J, O).
TensorView as_images(const Problem& p, const TensorView& rows) {
  TensorView images;
  invariant(try_reshape(rows, {rows.size(0) / p.rows_of(1), p.count.height, p.count.width, p.out}, images),
            "conv2d: scratch is not contiguous");
  return images;
}

/// Columns of group g in a matrix that holds all groups side by side.
TensorView group_columns(const TensorView& matrix, int64_t g, int64_t groups) {
  const int64_t width = matrix.size(1) / groups;
  return slice(matrix, 1, g * width, (g + 1) * width);
}
/// The weights of group g as a matrix (O / G, C / G P Q).
TensorView group_weight(const Problem& p, const TensorView& weight, int64_t g) {
  const int64_t rows = p.out / p.groups;
  TensorView matrix;
  invariant(try_reshape(weight, {p.out, p.row_size / p.groups}, matrix), "conv2d: weight is not contiguous");
  return slice(matrix, 0, g * rows, (g + 1) * rows);
}

}  // namespace

bool has_dtype_or_f32(const TensorView& parameter, const TensorView& images) {
  return parameter.dtype == images.dtype || (size_of(images.dtype) == 2 && parameter.dtype == DType::f32);
}

void check_conv2d(const Conv2dArguments& arguments) {
  const auto& [x, weight, bias, options, y] = arguments;
  const Shape want = conv2d_shape(x.shape, weight.shape, options);
  check(y.shape == want, "conv2d: the result is ", y.shape, ", should be ", want);
  check(is_floating(x.dtype) && weight.dtype == x.dtype && y.dtype == x.dtype, "conv2d: dtypes differ: x ",
        x.dtype, ", weight ", weight.dtype, ", y ", y.dtype);
  check(x.is_contiguous() && weight.is_contiguous() && y.is_contiguous(),
        "conv2d: x, weight and y must be contiguous; strides are ", x.strides, ", ", weight.strides, ", ",
        y.strides);
  check(!bias || (has_dtype_or_f32(bias, x) && bias.shape == Shape{weight.size(0)} && bias.is_contiguous()),
        "conv2d: bias is ", bias.dtype, " ", bias.shape, ", needs ", x.dtype, " (", weight.size(0), ",)");
}

void check_conv2d_dx(const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  check_conv2d({.x = dx, .weight = weight, .options = options, .y = dy});
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
  const Problem p(stream, x, weight, options);
  if (y.numel() == 0) return;
  const int64_t slab = p.slab();
  Scratch columns(p, slab, p.row_size), rows(p, slab, p.out);
  for (int64_t begin = 0; begin < p.images; begin += slab) {
    const int64_t end = std::min(p.images, begin + slab), used = p.rows_of(end - begin);
    const TensorView windows = slice(columns.view, 0, 0, used), out = slice(rows.view, 0, 0, used);
    unfold(stream, slice(x, 0, begin, end), p.windows, windows);
    for (int64_t g = 0; g < p.groups; ++g) {
      const int64_t width = p.out / p.groups;
      gemm(stream, {.a = group_columns(windows, g, p.groups),
                    .b = transpose(group_weight(p, weight, g), 0, 1),
                    .c = group_columns(out, g, p.groups),
                    .epilogue = {.bias = bias ? slice(bias, 0, g * width, (g + 1) * width) : TensorView()}});
    }
    copy(stream, as_images(p, out), channels_last(y, begin, end));
  }
}

void conv2d_dx_by_gemm(const Stream& stream, const Conv2dDxArguments& arguments) {
  const auto& [dy, weight, bias, options, dx] = arguments;
  const Problem p(stream, dx, weight, options);
  if (dx.numel() == 0) return;
  if (dy.numel() == 0) return fill_channels(stream, dx, bias);
  const int64_t slab = p.slab();
  Scratch columns(p, slab, p.row_size), rows(p, slab, p.out);
  for (int64_t begin = 0; begin < p.images; begin += slab) {
    const int64_t end = std::min(p.images, begin + slab), used = p.rows_of(end - begin);
    const TensorView windows = slice(columns.view, 0, 0, used), out = slice(rows.view, 0, 0, used);
    copy(stream, channels_last(dy, begin, end), as_images(p, out));
    for (int64_t g = 0; g < p.groups; ++g)
      gemm(stream, {.a = group_columns(out, g, p.groups),
                    .b = group_weight(p, weight, g),
                    .c = group_columns(windows, g, p.groups)});
    fold(stream, windows, p.windows, slice(dx, 0, begin, end), bias);
  }
}

void conv2d_dweight_by_gemm(const Stream& stream, const Conv2dDweightArguments& arguments) {
  const auto& [dy, x, options, dweight] = arguments;
  const Problem p(stream, x, dweight, options);
  if (dweight.numel() == 0) return;
  if (dy.numel() == 0) return fill(stream, dweight, 0);
  // Sums between slabs are rounded to dweight's dtype, so for half types there is one slab.
  const int64_t slab = size_of(dweight.dtype) > 2 ? p.slab() : p.images;
  Scratch columns(p, slab, p.row_size), rows(p, slab, p.out);
  for (int64_t begin = 0; begin < p.images; begin += slab) {
    const int64_t end = std::min(p.images, begin + slab), used = p.rows_of(end - begin);
    const TensorView windows = slice(columns.view, 0, 0, used), out = slice(rows.view, 0, 0, used);
    unfold(stream, slice(x, 0, begin, end), p.windows, windows);
    copy(stream, channels_last(dy, begin, end), as_images(p, out));
    for (int64_t g = 0; g < p.groups; ++g)
      gemm(stream, {.a = transpose(group_columns(out, g, p.groups), 0, 1),
                    .b = group_columns(windows, g, p.groups),
                    .c = group_weight(p, dweight, g),
                    .epilogue = {.accumulate = begin > 0}});
  }
}

}  // namespace reprise::kernels::conv2d_detail
