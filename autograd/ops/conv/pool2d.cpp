// Pooling: the maximum or the mean of each window.
#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/image/separable2d.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/conv/max_pool2d.h"

namespace reprise {
namespace {

using namespace autograd;
using kernels::Windows;

// How many windows there are along one side. Rounded up, the last one may reach over the padding, but not begin
// behind the image and its left padding.
int64_t count_along(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0 && !(ceil_mode && room + stride > 0)) return 0;
  const int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
}

void check_sizes(const char* op, Size2 size, int64_t smallest, const char* what) {
  constexpr int64_t largest = int64_t(1) << 31;
  check(std::min(size.height, size.width) >= smallest && std::max(size.height, size.width) < largest, op,
        ": ", what, " must be in [", smallest, ", ", largest, "), got (", size.height, ", ", size.width, ")");
}

Size2 count_windows(const char* op, const Tensor& x, const Windows& w, bool ceil_mode) {
  check_given(op, x);
  check(x.rank() == 4, op, ": needs images (N, C, H, W), got ", x.shape());
  check_floating(op, x);
  check_sizes(op, w.kernel, 1, "the kernel's size");
  check_sizes(op, w.stride, 1, "stride");
  check_sizes(op, w.dilation, 1, "dilation");
  check_sizes(op, w.padding, 0, "padding");
  check(2 * w.padding.height <= w.kernel.height && 2 * w.padding.width <= w.kernel.width, op,
        ": padding of (", w.padding.height, ", ", w.padding.width, ") is more than half the kernel of (",
        w.kernel.height, ", ", w.kernel.width, ")");
  const Size2 count = {
      count_along(x.size(2), w.kernel.height, w.stride.height, w.padding.height, w.dilation.height,
                  ceil_mode),
      count_along(x.size(3), w.kernel.width, w.stride.width, w.padding.width, w.dilation.width, ceil_mode)};
  check(count.height >= 1 && count.width >= 1, op, ": images ", x.shape(),
        " are smaller than the kernel of (", w.kernel.height, ", ", w.kernel.width, ")");
  return count;
}

// dx from dy: each number goes to the place of its window's maximum.
struct MaxPool2dBackward : Function<MaxPool2dBackward> {
  static constexpr const char* name = "max_pool2d_backward";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& dy, const Tensor& places, const Windows& windows, const Shape& shape) {
    save(places);
    Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
    kernels::max_pool2d_dx(current_stream(dy.device()), dy.contiguous().view(), places, windows, dx);
    return dx;
  }
  TensorList backward(const TensorList& ddx) {
    Tensor places = saved(0);
    auto planes = [](const Tensor& x) { return reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3)}); };
    return {reshape(gather(planes(ddx[0]), planes(places)), places.shape()), Tensor()};
  }
};

struct MaxPool2d : Function<MaxPool2d> {
  static constexpr const char* name = "max_pool2d";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();
  Windows windows_{1};
  Shape shape_;

  Tensor forward(const Tensor& x, const Windows& windows, Size2 count) {
    windows_ = windows;
    shape_ = x.shape();
    const Shape result{x.size(0), x.size(1), count.height, count.width};
    Tensor y = Tensor::empty(result, x.dtype(), x.device()),
           places = Tensor::empty(result, DType::i32, x.device());
    kernels::max_pool2d(current_stream(x.device()), x.contiguous().view(), windows, y, places);
    save(places);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    return {MaxPool2dBackward::apply(dy[0], saved(0), windows_, shape_)};
  }
};

}  // namespace

Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options) {
  const Windows windows{kernel, options.stride.value_or(kernel), options.padding, options.dilation};
  return MaxPool2d::apply(x, windows, count_windows("max_pool2d", x, windows, options.ceil_mode));
}

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options) {
  const auto [height_step, width_step] = options.stride.value_or(kernel);
  const auto [top, left] = options.padding;
  const Size2 count =
      count_windows("avg_pool2d", x, {kernel, {height_step, width_step}, {top, left}}, options.ceil_mode);
  const auto counts = options.count_include_pad ? kernels::CountPadding::yes : kernels::CountPadding::no;
  return separable2d(x, kernels::mean_map(x.size(2), count.height, kernel.height, height_step, top, counts),
                     kernels::mean_map(x.size(3), count.width, kernel.width, width_step, left, counts));
}

}  // namespace reprise
