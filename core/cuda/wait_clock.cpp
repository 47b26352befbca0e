// Timing events around each wait.
#include "reprise/core/cuda/wait_clock.h"

namespace reprise::cuda {
namespace {
constexpr size_t many = 64;  // waits that are not looked at, for asking costs time as well
}  // namespace

void WaitClock::wait(const Event& event, const Stream& stream) {
  Wait wait{Event(stream.device(), Event::Timing::on), Event(stream.device(), Event::Timing::on)};
  wait.begin.record(stream);
  event.make_wait(stream);
  wait.end.record(stream);
  std::lock_guard lock(mutex_);
  waits_.push_back(std::move(wait));
  if (waits_.size() > many) collect();
}

double WaitClock::seconds() {
  std::lock_guard lock(mutex_);
  collect();
  return seconds_;
}

void WaitClock::collect() {
  for (; !waits_.empty() && waits_.front().end.is_done(); waits_.pop_front())
    seconds_ += seconds_between(waits_.front().begin, waits_.front().end);
}

}  // namespace reprise::cuda
