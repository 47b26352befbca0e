// Borders around images: of one value, or mirrored.
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/image/constant_pad.h"
#include "reprise/autograd/ops/image/separable2d.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"

namespace reprise {
namespace {

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
  autograd::element("pad", value, x.dtype());  // by its own name
  return mode == PadMode::reflect ? reflect(x, options) : constant_pad(x, {left, right, top, bottom}, value);
}

}  // namespace reprise
