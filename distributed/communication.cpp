#include "reprise/distributed/communication.h"

namespace reprise::distributed {

void BusyTime::begin() {
  std::lock_guard lock(mutex_);
  if (going_on_++ == 0) since_ = Clock::now();
}

void BusyTime::end() {
  std::lock_guard lock(mutex_);
  if (--going_on_ == 0) past_ += Clock::now() - since_;
}

double BusyTime::seconds() const {
  std::lock_guard lock(mutex_);
  const auto present = going_on_ > 0 ? Clock::now() - since_ : Clock::duration(0);
  return std::chrono::duration<double>(past_ + present).count();
}

}  // namespace reprise::distributed
