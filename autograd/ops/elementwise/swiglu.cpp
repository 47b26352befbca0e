// SwiGLU's elementwise part as one operation.
#include "reprise/kernels/elementwise/swiglu.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

struct Swiglu : Function<Swiglu> {
  static constexpr const char* name = "swiglu";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& gate, const Tensor& up) {
    check(gate.shape() == up.shape(), "swiglu: shapes differ: ", gate.shape(), " and ", up.shape());
    check_dtype(gate, up, name);
    check_device(name, gate, up);
    save(gate, up);
    Tensor y = raw_empty_like(gate);
    kernels::swiglu(current_stream(gate.device()), gate, up, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor gate = saved(0), up = saved(1);
    if (grad_mode_enabled()) {
      auto same = [](const TensorList& in) { return TensorList{composite::swiglu(in[0], in[1])}; };
      return composite_backward(same, {gate, up}, dy);
    }
    Tensor dgate = raw_empty_like(gate), dup = raw_empty_like(up);
    kernels::swiglu_backward(current_stream(gate.device()),
                             {.dy = dy[0], .gate = gate, .up = up, .dgate = dgate, .dup = dup});
    return {dgate, dup};
  }
};

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) { return Swiglu::apply(gate, up); }

Tensor composite::swiglu(const Tensor& gate, const Tensor& up) {
  auto wide = [](const Tensor& g, const Tensor& u) { return composite::activate(g, Activation::silu) * u; };
  return in_f32(wide, gate, up);
}

}  // namespace reprise
