// Gather along the last dimension, and scatters.
#include "reprise/kernels/index/index.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/scattered.h"

namespace reprise {
namespace {

// What of y an index reaches, which may be smaller in the dimensions before the last.
template <class X>
X written_by(const Tensor& index, const X& y) {
  return autograd::beginning(y, index.shape(), index.rank() - 1);
}

struct ScatterAdd : autograd::Function<ScatterAdd> {
  static constexpr const char* name = "scatter_add";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& index, const Shape& shape) {
    save(index);
    Tensor y = Tensor::zeros(shape, x.dtype(), x.device());
    kernels::scatter_add(current_stream(x.device()), x, index, written_by(index, y.view()));
    return y;
  }
  TensorList backward(const TensorList& dy) {
    const Tensor index = saved(0);
    return {gather(written_by(index, dy[0]), index), Tensor()};
  }
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

// The gradient of a source that did not stay is 0.
struct Scatter : autograd::Function<Scatter> {
  static constexpr const char* name = "scatter";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& index, const Tensor& source) {
    save(index);
    Tensor y = clone(x);
    kernels::scatter(current_stream(x.device()), source, index, written_by(index, y.view()));
    return y;
  }
  TensorList backward(const TensorList& dy) {
    const Tensor index = saved(0);
    auto number = [&](double value, DType dtype, const Shape& shape) {
      return expand(scalar(value, dtype, index.device()), shape);
    };
    Tensor dx, dsource;
    if (needs_grad(0)) dx = Scatter::apply(dy[0], index, number(0, dy[0].dtype(), index.shape()));
    if (needs_grad(2)) {
      const Tensor numbers = expand(arange(index.size(-1), DType::i64, index.device()), index.shape());
      const Tensor given = written_by(index, dy[0]);
      const Tensor last = Scatter::apply(number(0, DType::i64, given.shape()), index, numbers);
      dsource =
          where(equal(gather(last, index), numbers), gather(given, index), number(0, given.dtype(), {}));
    }
    return {dx, Tensor(), dsource};
  }
};

}  // namespace

Tensor autograd::scattered_into(const Tensor& x, const Tensor& index, const Tensor& source) {
  return Scatter::apply(x, index, source);
}

Tensor autograd::scattered(const Tensor& x, const Tensor& index, const Shape& shape) {
  return ScatterAdd::apply(x, index, shape);
}

Tensor gather(const Tensor& x, const Tensor& index) { return Gather::apply(x, index); }

}  // namespace reprise
