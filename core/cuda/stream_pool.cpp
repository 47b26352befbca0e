#include "reprise/core/cuda/stream_pool.h"

#include <map>
#include <mutex>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

struct IdleStreams {
  std::mutex mutex;
  std::map<std::pair<int, StreamPriority>, std::vector<void*>> streams;  // by device and priority
};

IdleStreams& idle_streams() {
  static auto* one = new IdleStreams;  // never destroyed: streams may be owned by statics
  return *one;
}

}  // namespace

Stream take_stream(Device device, StreamPriority priority) {
  check(device.is_cuda(), "OwnedStream: ", device, " has one stream only");
  check_device(device);
  std::lock_guard lock(idle_streams().mutex);
  auto& streams = idle_streams().streams[{device.index, priority}];
  if (streams.empty()) return Stream(device, create_stream(device.index, priority));
  void* handle = streams.back();
  streams.pop_back();
  return Stream(device, handle);
}

void give_back(const Stream& stream, StreamPriority priority) noexcept {
  std::lock_guard lock(idle_streams().mutex);
  try {
    idle_streams().streams[{stream.device().index, priority}].push_back(stream.handle());
  } catch (const std::bad_alloc&) { destroy_stream(stream.handle()); }  // not kept for the next owner
}

}  // namespace reprise::cuda
