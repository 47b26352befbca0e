// The current stream of each thread, and waiting.
#include "reprise/core/stream.h"

#include <mutex>
#include <vector>

#include "reprise/core/cuda/error_slot.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/core/thread_owned.h"

namespace reprise {
namespace {

struct CurrentStreams {
  std::vector<void*> handles;  // by device index; null where the thread never had one
};

void*& current_handle(int index) {
  auto& handles = thread_owned<CurrentStreams>().handles;
  if (handles.size() <= size_t(index)) handles.resize(size_t(index) + 1);
  return handles[size_t(index)];
}

// The stream of a device that all threads start with. Never destroyed: work may be on it at exit.
void* shared_handle(Device device) {
  static std::mutex mutex;
  static auto* handles = new std::vector<void*>;
  std::lock_guard lock(mutex);
  if (handles->size() <= size_t(device.index)) handles->resize(size_t(device.index) + 1);
  void*& handle = (*handles)[size_t(device.index)];
  if (!handle) {
    check_device(device);
    handle = cuda::create_stream(device.index);
  }
  return handle;
}

}  // namespace

Stream current_stream(Device device) {
  if (device.is_cpu()) return Stream(device);
  check(device.index >= 0, "current_stream: no device ", device);
  void*& handle = current_handle(device.index);
  if (!handle) handle = shared_handle(device);
  cuda::select_device(device.index);
  return Stream(device, handle);
}

Stream detail::exchange_current_stream(const Stream& stream) {
  Stream previous = current_stream(stream.device());
  if (stream.device().is_cuda()) current_handle(stream.device().index) = stream.handle();
  return previous;
}

void synchronize(const Stream& stream) {
  if (stream.device().is_cpu()) return;
  cuda::synchronize_stream(stream.handle());
  cuda::throw_device_error(stream.device());
}

void synchronize(Device device) {
  if (device.is_cpu()) return;
  check_device(device);
  cuda::synchronize_device(device.index);
  cuda::throw_device_error(device);
}

}  // namespace reprise
