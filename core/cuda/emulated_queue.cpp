// The emulator's streams: work in order, at once or as late as possible.
#include "reprise/core/cuda/emulated_queue.h"

#include <cstdlib>
#include <set>
#include <string_view>

#include "reprise/core/cuda/emulated_memory.h"
#include "reprise/core/cuda/emulated_stream.h"
#include "reprise/core/error.h"

namespace reprise::cuda::emulated {
namespace {

struct Process {
  std::recursive_mutex mutex;
  StreamState default_stream;
  std::set<StreamState*> streams{&default_stream};
  Streams mode = Streams::eager;
};

Process& process() {
  static Process* one = [] {
    const char* text = std::getenv("REPRISE_EMULATOR_STREAMS");
    std::string_view mode = text ? text : "eager";
    check(mode == "eager" || mode == "deferred", "emulator: REPRISE_EMULATOR_STREAMS is '", mode,
          "'; use eager or deferred");
    auto* made = new Process;  // never destroyed: statics may hold device memory
    made->mode = mode == "deferred" ? Streams::deferred : Streams::eager;
    return made;
  }();
  return *one;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_streams() { return std::unique_lock(process().mutex); }

StreamState& stream_of(void* handle) {
  return handle ? *static_cast<StreamState*>(handle) : process().default_stream;
}

StreamState* add_stream(int device) {
  auto* stream = new StreamState;
  stream->device = device;
  process().streams.insert(stream);
  return stream;
}

void remove_stream(StreamState* stream) {
  process().streams.erase(stream);
  delete stream;
}

void add(StreamState& stream, WorkKind kind, Work work) {
  if (GraphState* graph = stream.capture.get()) {
    graph->works.push_back({kind, std::move(work)});
    stream.captured_works = graph->works.size();
    if (&stream != graph->origin) graph->unjoined[&stream] = true;
    return;
  }
  stream.items.push_back({std::move(work), nullptr});
  if (process().mode == Streams::eager) run_all(stream);
}

// A wait runs what it waits for, on the other stream. That never comes back here: a point lies before
// whatever waits for it.
void run_one(StreamState& stream) {
  if (stream.items.empty()) return;
  StreamState::Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (item.wait) return run_until(item.wait);
  DeviceAccess access;
  item.run();
}

void run_all(StreamState& stream) {
  while (!stream.items.empty()) run_one(stream);
}

void run_all_of_device(int device) {
  for (StreamState* stream : process().streams)
    if (stream->device == device) run_all(*stream);
}

void run_until(const std::shared_ptr<Point>& point) {
  while (!point->passed) {
    invariant(!point->stream->items.empty(), "emulator: an event that never comes");
    run_one(*point->stream);
  }
}

bool runs_at_once(const StreamState& stream) {
  return process().mode == Streams::eager && !stream.capture && stream.items.empty();
}

void enqueue(void* stream, std::function<void()> work) {
  auto lock = lock_streams();
  add(stream_of(stream), WorkKind::kernel, std::move(work));
}

Streams streams() { return process().mode; }

void set_streams(Streams streams) {
  auto lock = lock_streams();
  for (StreamState* stream : process().streams) run_all(*stream);
  process().mode = streams;
}

size_t pending(void* stream) {
  auto lock = lock_streams();
  return stream_of(stream).items.size();
}

}  // namespace reprise::cuda::emulated
