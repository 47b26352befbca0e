#include "reprise/nn/optim/masters.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::optim {

Tensor Masters::copy_of(const Tensor& parameter, size_t place) const {
  if (kind != Master::f32 || size_of(parameter.dtype()) != 2) return parameter;
  const Tensor& master = copies[place];
  if (master.defined() && parameter.version() == written_[place]) return master;
  NoGrad guard;
  Tensor given = parameter.detach();
  if (!master.defined()) return given.to(DType::f32);
  // Elements that are still the master's, rounded, keep the digits that the parameter has no room for.
  master.copy_(where(equal(master.to(given.dtype()), given), master, given.to(DType::f32)));
  return master;
}

void Masters::keep(const Tensor& parameter, size_t place, const Tensor& copy) {
  if (copy.is_same(parameter)) return;
  copies[place] = copy;
  written_[place] = parameter.version();
}

void Masters::make_remainder(const Tensor& parameter, size_t place) {
  if (!is_split(parameter) || remainders[place].defined()) return;
  Shape bytes = parameter.shape();
  bytes.push_back(2);
  remainders[place] = Tensor::zeros(bytes, DType::u8, parameter.device());
}

}  // namespace reprise::optim
