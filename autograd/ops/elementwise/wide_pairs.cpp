#include "reprise/autograd/ops/elementwise/wide_pairs.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/run_binary.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/elementwise_table.h"

namespace reprise::autograd {
namespace {

using kernels::BinaryOp;

template <BinaryOp op>
struct WidePair : Function<WidePair<op>> {
  static_assert(op == BinaryOp::sub || op == BinaryOp::mul);
  static constexpr const char* name = kernels::name_of(op);
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();
  Shape shape_a, shape_b;

  Tensor forward(const Tensor& a, const Tensor& b) {
    shape_a = a.shape(), shape_b = b.shape();
    if (op == BinaryOp::mul) this->save(a, b);
    const bool widens = this->under_autocast() && is_floating(a.dtype());
    return run_binary(op, a, b, widens ? statistics_dtype(a) : a.dtype(), name);
  }

  TensorList backward(const TensorList& dy) {
    Tensor da, db;
    if constexpr (op == BinaryOp::mul) {
      const Tensor a = this->saved(0), b = this->saved(1);
      if (this->needs_grad(0)) da = sum_to(dy[0] * b, shape_a);
      if (this->needs_grad(1)) db = sum_to(dy[0] * a, shape_b);
    } else {
      if (this->needs_grad(0)) da = sum_to(dy[0], shape_a);
      if (this->needs_grad(1)) db = sum_to(-dy[0], shape_b);
    }
    return {da, db};
  }
};

}  // namespace

Tensor difference(const Tensor& a, const Tensor& b) { return WidePair<BinaryOp::sub>::apply(a, b); }
Tensor product(const Tensor& a, const Tensor& b) { return WidePair<BinaryOp::mul>::apply(a, b); }

}  // namespace reprise::autograd
