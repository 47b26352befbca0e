#include "reprise/autograd/ops/attention/rotary.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

struct Rotary : autograd::Function<Rotary> {
  static constexpr const char* name = "rotary";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();

  Tensor forward(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
    save(cosines, sines);
    auto turned = [](const Tensor& wide, const Tensor& c, const Tensor& s) {
      const int64_t half = wide.size(-1) / 2;
      const Tensor a = slice(wide, -1, 0, half), b = slice(wide, -1, half, 2 * half);
      return concat({a * c - b * s, b * c + a * s}, -1);
    };
    return autograd::in_f32_inside(turned, x, cosines, sines);
  }
  // The turn back.
  TensorList backward(const TensorList& dy) {
    return {rotary(dy[0], saved(0), -saved(1)), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  autograd::check_given(Rotary::name, x, cosines, sines);
  autograd::check_floating(Rotary::name, x);
  check(x.rank() >= 1 && x.size(-1) % 2 == 0, Rotary::name, ": needs an even number of channels, got ",
        x.shape());
  Shape half = x.shape();
  half[x.rank() - 1] /= 2;
  check(cosines.shape() == sines.shape() && broadcast_shapes(cosines.shape(), half, Rotary::name) == half,
        Rotary::name, ": tables ", cosines.shape(), " and ", sines.shape(), " do not fit ", x.shape());
  const DType dtype = autograd::statistics_dtype(x);
  NoGrad guard;
  const Tensor c = cosines.detach().to(dtype), s = sines.detach().to(dtype);
  EnableGrad again;
  return Rotary::apply(x, c, s);
}

}  // namespace reprise
