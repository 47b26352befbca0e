#include "reprise/distributed/work.h"

namespace reprise::distributed {

void Work::synchronize() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

bool Work::is_done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

double Work::seconds() const {
  if (!state_) return 0;
  std::lock_guard lock(state_->mutex);
  return state_->seconds;
}

}  // namespace reprise::distributed
