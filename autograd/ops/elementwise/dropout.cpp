// Dropout: linear in x, so its backward is the same draw applied to dy. Nothing is kept but two integers.
#include "reprise/kernels/elementwise/dropout.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/random_draw.h"

namespace reprise {
namespace {

struct Dropout : autograd::Function<Dropout> {
  static constexpr const char* name = "dropout";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  double p_ = 0;
  Generator::State draw_;

  Tensor forward(const Tensor& x, double p, Generator::State draw) {
    p_ = p;
    draw_ = draw;
    Tensor y = autograd::raw_empty_like(x);
    kernels::dropout(current_stream(x.device()), x, p, draw.seed, draw.offset, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {Dropout::apply(dy[0], p_, draw_)}; }
};

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator* generator) {
  check(p >= 0 && p < 1, "dropout: p must be in [0, 1), got ", p);
  if (p == 0) return x;
  return Dropout::apply(x, p, autograd::random_draw(generator));
}

}  // namespace reprise
