#include "reprise/distributed/world.h"

#include <utility>

namespace reprise::distributed {

World::World(std::shared_ptr<Transport> transport, std::chrono::milliseconds notice_after,
             WaitNotices::Tell tell)
    : transport_(std::move(transport)), recorder_(rank(), ranks()) {
  if (transport_) notices_.emplace(notice_after, std::move(tell));
}

World::~World() {
  try {
    leave();
  } catch (const std::exception&) {}  // the others see the connection end
}

int64_t World::next_call_with(int rank) {
  std::lock_guard lock(mutex_);
  return ++calls_with_[rank];
}

std::optional<DistributedError> World::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void World::check_alive(const std::string& operation) const {
  std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  check(!left_, operation, ": this rank has left its group");
}

DistributedError World::fail(const Failure& failure, DistributedError::Call call, double seconds) {
  if (auto first = this->failure()) return *first;
  if (transport_) transport_->fail(failure);
  call.record = recorder_.write(failure.message);
  std::lock_guard lock(mutex_);
  if (!failure_) failure_.emplace(failure, std::move(call), seconds);
  return *failure_;
}

void World::leave() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
  }
  if (transport_) transport_->leave();
}

}  // namespace reprise::distributed
