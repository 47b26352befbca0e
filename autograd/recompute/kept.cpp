// Reading kept values.
#include "reprise/autograd/recompute/kept.h"

namespace reprise::recompute {

Tensor KeptValue::read() {
  if (store_) return store_->fetch(place_);
  std::lock_guard lock(mutex_);
  if (!saved_.is_packed()) return saved_.unpack(nullptr, op_name_);
  if (!unpacked_) unpacked_ = saved_.unpack(nullptr, op_name_);
  return unpacked_;
}

}  // namespace reprise::recompute
