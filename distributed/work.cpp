#include "reprise/distributed/work.h"

namespace reprise::distributed {

template <class Ready>
void Work::State::wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
  if (ready()) return;
  BusyTime::Scope waiting(meter->waits);
  changed.wait(lock, ready);
}

void Work::wait() const {
  if (const auto event = arrival()) event->make_wait(current_stream(event->device()));
  release();
}

void Work::wait_on(const Stream& stream) const {
  if (const auto event = arrival()) event->make_wait(stream);
  release();
}

std::shared_ptr<const cuda::Event> Work::arrival() const {
  if (!state_) return {};
  std::unique_lock lock(state_->mutex);
  state_->wait(lock, [&] { return state_->done || state_->arrival; });
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->arrival;
}

void Work::keep(TensorList tensors) {
  if (!state_) state_ = std::make_shared<State>(nullptr), state_->done = true;
  std::lock_guard lock(state_->mutex);
  state_->kept = std::move(tensors);
}

void Work::synchronize() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
  lock.unlock();
  release();
}

void Work::release() const {
  if (!state_) return;
  TensorList kept;  // goes without the lock
  std::lock_guard lock(state_->mutex);
  kept.swap(state_->kept);
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
