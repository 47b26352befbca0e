#include "reprise/autograd/ops/attention/rotary.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/kernels/attention/rotary.h"

namespace reprise {
namespace {

struct Rotary : autograd::Function<Rotary> {
  static constexpr const char* name = "rotary";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  RotaryPairs pairs_ = RotaryPairs::halves;
  DType of_x_ = DType::f32;

  Tensor forward(const Tensor& x, const Tensor& cosines, const Tensor& sines, RotaryPairs pairs, DType out) {
    pairs_ = pairs;
    of_x_ = x.dtype();
    save(cosines, sines);
    const Tensor rows = autograd::unit_stride(x);
    Tensor y = Tensor::empty(x.shape(), out, x.device());
    const Shape half = autograd::with_width(x, x.size(-1) / 2);
    kernels::rotary(current_stream(x.device()), {.x = rows,
                                                 .y = y,
                                                 .cosines = expand(cosines.view(), half),
                                                 .sines = expand(sines.view(), half),
                                                 .pairs = pairs});
    return y;
  }
  // The turn back.
  TensorList backward(const TensorList& dy) {
    const RotaryOptions same{.pairs = pairs_, .out = gradient_dtype(0, of_x_)};
    return {rotary(dy[0], saved(0), -saved(1), same), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines, const RotaryOptions& options) {
  autograd::check_given(Rotary::name, x, cosines, sines);
  autograd::check_floating(Rotary::name, x);
  if (options.out) autograd::check_result_dtype(Rotary::name, x, *options.out);
  check(x.rank() >= 1 && x.size(-1) % 2 == 0, Rotary::name, ": needs an even number of channels, got ",
        x.shape());
  Shape half = x.shape();
  half[x.rank() - 1] /= 2;
  for (const Tensor* table : {&cosines, &sines}) autograd::check_device(Rotary::name, x, *table);
  check(cosines.shape() == sines.shape() && broadcast_shapes(cosines.shape(), half, Rotary::name) == half,
        Rotary::name, ": tables ", cosines.shape(), " and ", sines.shape(), " do not fit ", x.shape());
  // As the kernel takes them.
  auto table = [&](const Tensor& given) {
    const Tensor t = given.detach().to(autograd::statistics_dtype(x));
    const bool is_row = t.rank() > 0 && t.size(-1) == half.back();
    return autograd::unit_stride(is_row ? t : expand(t, half).contiguous());
  };
  NoGrad guard;
  const Tensor c = table(cosines), s = table(sines);
  EnableGrad again;
  return Rotary::apply(x, c, s, options.pairs, options.out.value_or(x.dtype()));
}

}  // namespace reprise
