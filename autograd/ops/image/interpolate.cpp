// Images of another size.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/image/separable2d.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

kernels::AxisMap map_of(int64_t inputs, int64_t outputs, const InterpolateOptions& options) {
  if (options.mode == Interpolation::nearest) return kernels::nearest_map(inputs, outputs);
  const auto kernel =
      options.mode == Interpolation::bilinear ? kernels::Kernel1d::linear : kernels::Kernel1d::cubic;
  const auto align = options.align_corners ? kernels::Align::corners : kernels::Align::edges;
  return options.antialias ? kernels::antialias_map(inputs, outputs, kernel, align)
                           : kernels::interpolation_map(inputs, outputs, kernel, align);
}

}  // namespace

Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options) {
  constexpr auto op = "interpolate";
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  check(x.rank() == 4 && x.size(2) > 0 && x.size(3) > 0, op, ": needs images (N, C, H, W), got ", x.shape());
  check(size.height > 0 && size.width > 0, op, ": the size must be positive, is (", size.height, ", ",
        size.width, ")");
  numel_of({x.size(0), x.size(1), size.height, size.width}, op);
  check(options.mode != Interpolation::nearest || (!options.align_corners && !options.antialias), op,
        ": nearest has neither align_corners nor antialias");
  const bool widens = amp::autocast_dtype(x.device()) && autograd::is_half(x.dtype());
  return autograd::separable2d(x, map_of(x.size(2), size.height, options),
                               map_of(x.size(3), size.width, options), widens ? DType::f32 : x.dtype());
}

}  // namespace reprise
