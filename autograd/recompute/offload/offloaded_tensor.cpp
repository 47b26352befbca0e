// Fetching: from the device if the tensor is still there, else from its storage.
#include "reprise/autograd/recompute/offload/offloaded_tensor.h"

#include <utility>

namespace reprise::recompute {

OffloadedTensor::OffloadedTensor(const Tensor& x, std::string label)
    : label_(std::move(label)),
      view_(x.view()),
      version_(x.version()),
      times_superseded_(x.storage()->times_superseded()),
      held_(x.alias(x.view())) {
  view_.data = nullptr;
}

void OffloadedTensor::check_version(uint64_t now) const {
  check(now == version_, label_, ": a tensor of shape ", view_.shape,
        " that backward needs was changed in place: it is at version ", now, ", saved at ", version_);
}

Tensor OffloadedTensor::over(std::shared_ptr<Storage> origin) const {
  TensorView view = view_;
  view.data = origin_data_;
  return Tensor::over(std::move(origin), view);
}

std::shared_ptr<Storage> OffloadedTensor::origin() const {
  std::shared_ptr<Storage> origin = origin_.lock();
  return origin && origin->times_superseded() == times_superseded_ ? origin : nullptr;
}

void OffloadedTensor::prefetch() {
  std::lock_guard lock(mutex_);
  if (!storage_ || ahead_.defined()) return;
  if (std::shared_ptr<Storage> kept = origin())
    ahead_ = over(std::move(kept));
  else
    storage_->prefetch();
}

void OffloadedTensor::forget_prefetch() {
  std::lock_guard lock(mutex_);
  ahead_ = Tensor();
  if (storage_) storage_->forget();
}

Tensor OffloadedTensor::fetch() {
  std::lock_guard lock(mutex_);
  if (held_.defined()) {
    check_version(held_.version());
    return held_.alias(held_.view());
  }
  Tensor ahead = std::exchange(ahead_, Tensor());
  if (std::shared_ptr<Storage> kept = origin()) {
    check_version(kept->version());
    return over(std::move(kept));
  }
  check(!storage_->is_torn(), label_, ": a tensor of shape ", view_.shape,
        " that backward needs was changed in place while it was offloaded");
  Tensor bytes = storage_->fetch();
  TensorView view = view_;
  view.data = static_cast<char*>(bytes.view().data) + first_byte_;
  return bytes.alias(view);
}

}  // namespace reprise::recompute
