// Counting saved tensors.
#include "reprise/nn/memory/saved_bytes.h"

#include "reprise/autograd/anomaly.h"

namespace reprise::nn {

SavedBytes::SavedBytes(const TensorList& parameters)
    : hooks_(
          [this](const Tensor& x) {
            saved(x);
            return std::any(x);
          },
          [](const std::any& x) { return std::any_cast<Tensor>(x); }) {
  for (const Tensor& parameter : parameters) seen_.emplace(parameter.storage().get(), parameter.storage());
}

void SavedBytes::op_ran(const char* op_name, const TensorList&, const TensorList&) {
  op_ = op_name;
  layer_ = autograd::op_scope();
}

void SavedBytes::saved(const Tensor& x) {
  const std::shared_ptr<Storage>& storage = x.storage();
  if (!is_floating(x.dtype()) || !seen_.emplace(storage.get(), storage).second) return;
  for (SavedCell& cell : cells_)
    if (cell.layer == layer_ && cell.op == op_ && cell.dtype == x.dtype()) {
      cell.bytes += storage->bytes();
      return;
    }
  cells_.push_back({layer_, op_, x.dtype(), storage->bytes()});
}

}  // namespace reprise::nn
