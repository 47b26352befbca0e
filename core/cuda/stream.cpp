// The streams that owners have given back.
#include "reprise/core/cuda/stream.h"

#include <map>
#include <mutex>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

struct IdleStreams {
  std::mutex mutex;
  std::map<int, std::vector<void*>> streams;  // by device
};

IdleStreams& idle_streams() {
  static auto* one = new IdleStreams;  // never destroyed: streams may be owned by statics
  return *one;
}

Stream take_stream(Device device) {
  check(device.is_cuda(), "OwnedStream: ", device, " has one stream only");
  check_device(device);
  std::lock_guard lock(idle_streams().mutex);
  auto& streams = idle_streams().streams[device.index];
  if (streams.empty()) return Stream(device, create_stream(device.index));
  void* handle = streams.back();
  streams.pop_back();
  return Stream(device, handle);
}

}  // namespace

OwnedStream::OwnedStream(Device device) : stream_(take_stream(device)) {}

OwnedStream::~OwnedStream() {
  if (stream_.device().is_cpu()) return;
  std::lock_guard lock(idle_streams().mutex);
  try {
    idle_streams().streams[stream_.device().index].push_back(stream_.handle());
  } catch (const std::bad_alloc&) { destroy_stream(stream_.handle()); }  // not kept for the next owner
}

}  // namespace reprise::cuda
