#include "reprise/autograd/ops/read_wide.h"

#include "reprise/autograd/function.h"

namespace reprise::autograd {
namespace {

struct ReadWide : Function<ReadWide> {
  static constexpr const char* name = "read_wide";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();
  DType of_x = DType::f32;
  Shape shape_of_x;

  Tensor forward(const Tensor& x, const Shape& shape) {
    of_x = x.dtype();
    shape_of_x = x.shape();
    return x.alias(expand(x.view(), shape));
  }
  TensorList backward(const TensorList& dy) {
    return {converted(sum_to(dy[0], shape_of_x), gradient_dtype(0, of_x))};
  }

  void take_wide_gradients() { outputs_[0].dtype = DType::f32; }
};

}  // namespace

Tensor with_wide_gradient(const Tensor& x, const Shape& shape) {
  if (!is_half(x.dtype()) || !grad_mode_enabled() || !x.requires_grad())
    return x.shape() == shape ? x : expand(x, shape);
  Tensor y = ReadWide::apply(x, shape);
  if (auto node = std::dynamic_pointer_cast<ReadWide>(gradient_edge(y).node)) node->take_wide_gradients();
  return y;
}

}  // namespace reprise::autograd
