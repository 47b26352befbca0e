// Copies that cross devices: what crosses is contiguous and has the target's dtype; kernels on either side do
// the rest.
#include "reprise/autograd/ops/tensor/transfer.h"

#include "reprise/autograd/function.h"
#include "reprise/core/transfer.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise::autograd {
namespace {

struct ToDevice : Function<ToDevice> {
  static constexpr const char* name = "to";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Device from_;

  Tensor forward(const Tensor& x, Device device) {
    from_ = x.device();
    Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
    copy_across(x, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {dy[0].to(from_)}; }
};

}  // namespace

void copy_across(const TensorView& source, const TensorView& target) {
  Tensor packed, arrived;
  TensorView leaving = source, landing = target;
  if (!source.is_contiguous() || source.dtype != target.dtype) {
    packed = Tensor::empty(source.shape, target.dtype, source.device);
    kernels::copy(current_stream(source.device), source, packed);
    leaving = packed;
  }
  if (!target.is_contiguous() || source.shape != target.shape) {
    arrived = Tensor::empty(source.shape, target.dtype, target.device);
    landing = arrived;
  }
  copy_bytes(leaving, landing);
  if (arrived.defined())
    kernels::copy(current_stream(target.device), expand(arrived.view(), target.shape), target);
}

Tensor copy_to(const Tensor& x, Device device) { return ToDevice::apply(x, device); }

}  // namespace reprise::autograd
