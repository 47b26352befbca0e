#include "reprise/distributed/world.h"

#include <utility>

namespace reprise::distributed {

World::~World() {
  try {
    leave();
  } catch (const std::exception&) {}  // the others see the connection end
}

void World::check_alive(const std::string& operation) const {
  std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  check(!left_, operation, ": this rank has left its group");
}

DistributedError World::fail(const DistributedError& error) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = error;
  }
  if (transport_) transport_->fail(error.failure());
  return error;
}

void World::leave() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
  }
  if (transport_) transport_->leave();
}

}  // namespace reprise::distributed
