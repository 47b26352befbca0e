// Reading kept values.
#include "reprise/autograd/recompute/replay/kept.h"

#include "reprise/autograd/graph_task.h"

namespace reprise::recompute {

// What the pass that unpacked a value holds: at its end the value is let go.
struct KeptValue::InPass {
  std::weak_ptr<KeptValue> value;

  explicit InPass(std::weak_ptr<KeptValue> kept) : value(std::move(kept)) {}
  ~InPass() {
    std::shared_ptr<KeptValue> alive = value.lock();
    if (!alive) return;
    std::lock_guard lock(alive->mutex_);
    alive->unpacked_ = Tensor();
  }
};

Tensor KeptValue::read() {
  if (store_) return store_->fetch(place_);
  std::lock_guard lock(mutex_);
  if (!saved_.is_packed()) return saved_.unpack(nullptr, op_name_);
  if (unpacked_.defined()) return unpacked_;
  unpacked_ = saved_.unpack(nullptr, op_name_);
  if (auto* kept = autograd::GraphTask::kept_in_pass(reinterpret_cast<uintptr_t>(this)))
    *kept = std::make_shared<InPass>(weak_from_this());
  return unpacked_;
}

}  // namespace reprise::recompute
