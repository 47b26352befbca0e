// Borders around images: of one value, which is a copy into a larger tensor, or mirrored.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/image/separable2d.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise {
namespace {

struct Pad : autograd::Function<Pad> {
  static constexpr const char* name = "pad";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  PadOptions by_;
  int64_t height_ = 0, width_ = 0;

  Tensor forward(const Tensor& x, const PadOptions& by) {
    by_ = by;
    height_ = x.size(-2);
    width_ = x.size(-1);
    Shape shape = x.shape();
    shape[x.rank() - 2] += by.top + by.bottom;
    shape[x.rank() - 1] += by.left + by.right;
    Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    const Stream stream = current_stream(x.device());
    kernels::fill(stream, y, autograd::element(name, by.value, x.dtype()));
    kernels::copy(stream, x, inner(y.view()));
    return y;
  }
  TensorList backward(const TensorList& dy) { return {inner(dy[0])}; }

 private:
  // What of the result is the argument.
  template <class X>
  X inner(const X& y) const {
    return slice(slice(y, -2, by_.top, by_.top + height_), -1, by_.left, by_.left + width_);
  }
};

Tensor reflect(const Tensor& x, const PadOptions& by) {
  const int64_t height = x.size(-2), width = x.size(-1);
  check(by.top < height && by.bottom < height && by.left < width && by.right < width, "pad: an image of ",
        height, " x ", width, " has too few pixels to mirror for borders of ", by.top, ", ", by.bottom, ", ",
        by.left, ", ", by.right);
  autograd::check_floating("pad", x);
  Shape shape = x.shape();
  Tensor planes = reshape(x, {1, x.numel() / (height * width), height, width});
  Tensor y = autograd::separable2d(planes, kernels::reflection_map(height, by.top, by.bottom),
                                   kernels::reflection_map(width, by.left, by.right));
  shape[x.rank() - 2] = y.size(2);
  shape[x.rank() - 1] = y.size(3);
  return reshape(y, shape);
}

}  // namespace

Tensor pad(const Tensor& x, const PadOptions& options) {
  autograd::check_given("pad", x);
  const auto& [top, bottom, left, right, mode, value] = options;
  check(x.rank() >= 2, "pad: needs at least two dimensions, got ", x.shape());
  check(top >= 0 && bottom >= 0 && left >= 0 && right >= 0, "pad: borders of ", top, ", ", bottom, ", ", left,
        ", ", right, ": none may be negative");
  return mode == PadMode::reflect ? reflect(x, options) : Pad::apply(x, options);
}

}  // namespace reprise
