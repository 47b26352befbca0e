// Event over the runtime's handle.
#include "reprise/core/cuda/event.h"

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"

namespace reprise::cuda {

Event::Event(Device device, Timing timing) : device_(device) {
  check(device.is_cuda(), "Event: ", device, " has none");
  check_device(device);
  handle_ = create_event(device.index, timing == Timing::on);
}

Event::~Event() {
  if (handle_) destroy_event(handle_);
}

void Event::record(const Stream& stream) {
  check(stream.device() == device_, "Event: of ", device_, ", recorded on a stream of ", stream.device());
  record_event(handle_, stream.handle());
}

void Event::make_wait(const Stream& stream) const {
  if (stream.device().is_cpu()) return synchronize();
  wait_event(stream.handle(), handle_);
}

bool Event::is_done() const { return is_event_done(handle_); }
void Event::synchronize() const { synchronize_event(handle_); }

double seconds_between(const Event& begin, const Event& end) {
  return seconds_between(begin.handle_, end.handle_);
}

}  // namespace reprise::cuda
