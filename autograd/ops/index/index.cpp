// Gather along the last dimension, and its transpose.
#include "reprise/kernels/index/index.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/scattered.h"

namespace reprise {
namespace {

struct ScatterAdd : autograd::Function<ScatterAdd> {
  static constexpr const char* name = "scatter_add";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& index, const Shape& shape) {
    save(index);
    Tensor y = Tensor::zeros(shape, x.dtype(), x.device());
    kernels::scatter_add(current_stream(x.device()), x, index, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {gather(dy[0], saved(0)), Tensor()}; }
};

struct Gather : autograd::Function<Gather> {
  static constexpr const char* name = "gather";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Shape from_;

  Tensor forward(const Tensor& x, const Tensor& index) {
    from_ = x.shape();
    save(index);
    Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
    kernels::gather(current_stream(x.device()), x, index, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {ScatterAdd::apply(dy[0], saved(0), from_), Tensor()}; }
};

}  // namespace

Tensor autograd::scattered(const Tensor& x, const Tensor& index, const Shape& shape) {
  return ScatterAdd::apply(x, index, shape);
}

Tensor gather(const Tensor& x, const Tensor& index) { return Gather::apply(x, index); }

}  // namespace reprise
