// Fetching: from the device if the tensor is still there, else from its berth.
#include "reprise/autograd/recompute/offload/offloaded_tensor.h"

#include <utility>

namespace reprise::recompute {

Parked::Parked(const Tensor& x, std::string label)
    : label_(std::move(label)), view_(x.view()), version_(x.version()), held_(x.alias(x.view())) {
  view_.data = nullptr;
}

void Parked::check_version(uint64_t now) const {
  check(now == version_, label_, ": a tensor of shape ", view_.shape,
        " that backward needs was changed in place: it is at version ", now, ", saved at ", version_);
}

Tensor Parked::over(std::shared_ptr<Storage> origin) const {
  TensorView view = view_;
  view.data = origin_data_;
  return Tensor::over(std::move(origin), view);
}

void Parked::prefetch() {
  std::lock_guard lock(mutex_);
  if (!berth_ || ahead_.defined()) return;
  if (std::shared_ptr<Storage> origin = origin_.lock())
    ahead_ = over(std::move(origin));
  else
    berth_->prefetch();
}

void Parked::forget_prefetch() {
  std::lock_guard lock(mutex_);
  ahead_ = Tensor();
  if (berth_) berth_->forget();
}

Tensor Parked::fetch() {
  std::lock_guard lock(mutex_);
  if (held_.defined()) {
    check_version(held_.version());
    return held_.alias(held_.view());
  }
  Tensor ahead = std::exchange(ahead_, Tensor());
  if (std::shared_ptr<Storage> origin = origin_.lock()) {
    check_version(origin->version());
    return over(std::move(origin));
  }
  check(!berth_->is_torn(), label_, ": a tensor of shape ", view_.shape,
        " that backward needs was changed in place while it was parked");
  Tensor bytes = berth_->fetch();
  TensorView view = view_;
  view.data = static_cast<char*>(bytes.view().data) + first_byte_;
  return bytes.alias(view);
}

}  // namespace reprise::recompute
