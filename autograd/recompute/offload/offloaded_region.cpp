// When a region's tensors leave and come back.
#include <utility>

#include "reprise/autograd/recompute/offload/offload.h"

namespace reprise::recompute {

size_t OffloadedRegion::add(const Tensor& x, std::string label) {
  std::lock_guard lock(mutex_);
  tensors_.push_back(std::make_shared<OffloadedTensor>(x, std::move(label)));
  if (is_off_) store_->move_off(*tensors_.back());
  return tensors_.size() - 1;
}

void OffloadedRegion::move_off() {
  std::lock_guard lock(mutex_);
  if (reached_) return;
  is_off_ = true;
  for (const auto& x : tensors_) store_->move_off(*x);
}

void OffloadedRegion::prefetch() {
  std::lock_guard lock(mutex_);
  for (const auto& x : tensors_) x->prefetch();
}

void OffloadedRegion::forget_prefetch() {
  std::lock_guard lock(mutex_);
  for (const auto& x : tensors_) x->forget_prefetch();
}

// The first tensor that a pass takes brings the others of its region along, the newest first, and those of
// the region before.
Tensor OffloadedRegion::fetch(size_t index) {
  bool* reached = reached_by_.get();
  bool first = reached && !std::exchange(*reached, true);
  std::vector<std::shared_ptr<OffloadedTensor>> tensors;
  {
    std::lock_guard lock(mutex_);
    reached_ = true;
    tensors = tensors_;
  }
  Tensor fetched = tensors.at(index)->fetch();
  for (size_t i = first ? tensors.size() : 0; i-- > 0;)
    if (i != index) tensors[i]->prefetch();
  std::shared_ptr<OffloadedRegion> before = before_.lock(), stale = store_->look_ahead(*this, before);
  if (stale) stale->forget_prefetch();
  if (before) before->prefetch();
  store_->settle(0);  // what is still leaving, and wanted next, is held now
  return fetched;
}

}  // namespace reprise::recompute
