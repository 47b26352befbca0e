#include "reprise/autograd/ops/read_wide.h"

#include "reprise/autograd/function.h"

namespace reprise::autograd {
namespace {

struct ReadWide : Function<ReadWide> {
  static constexpr const char* name = "read_wide";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();
  DType of_x = DType::f32;

  Tensor forward(const Tensor& x) {
    of_x = x.dtype();
    return x.alias(x.view());
  }
  TensorList backward(const TensorList& dy) { return {converted(dy[0], gradient_dtype(0, of_x))}; }

  void take_wide_gradients() { outputs_[0].dtype = DType::f32; }
};

}  // namespace

Tensor with_wide_gradient(const Tensor& x) {
  if (!is_half(x.dtype()) || !grad_mode_enabled() || !x.requires_grad()) return x;
  Tensor y = ReadWide::apply(x);
  if (auto node = std::dynamic_pointer_cast<ReadWide>(gradient_edge(y).node)) node->take_wide_gradients();
  return y;
}

}  // namespace reprise::autograd
