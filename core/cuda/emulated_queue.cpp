// The emulator's streams: work in order, at once or as late as possible.
#include "reprise/core/cuda/emulated_queue.h"

#include <cstdlib>
#include <set>
#include <string_view>
#include <thread>

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

constexpr std::chrono::microseconds between_questions{50};

void let_others_go_on() {
  process().mutex.unlock();
  std::this_thread::sleep_for(between_questions);
  process().mutex.lock();
}

bool advance_to(const std::shared_ptr<Point>& point) {
  invariant(!point->stream->items.empty(), "emulator: an event that never comes");
  return advance(*point->stream);
}

void run_what_is_ready(StreamState& stream) {
  while (advance(stream)) {}
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

std::vector<std::shared_ptr<GraphState>> captures_under_way() {
  std::vector<std::shared_ptr<GraphState>> captures;
  for (const StreamState* stream : process().streams)
    if (stream->capture && stream->capture->origin == stream) captures.push_back(stream->capture);
  return captures;
}

void add(StreamState& stream, WorkKind kind, Work work) {
  if (GraphState* graph = stream.capture.get()) {
    graph->works.push_back({kind, std::move(work)});
    stream.captured_works = graph->works.size();
    if (&stream != graph->origin) graph->unjoined[&stream] = true;
    return;
  }
  stream.items.push_back({std::move(work), nullptr, nullptr});
  if (process().mode == Streams::eager) run_what_is_ready(stream);
}

// A wait runs what it waits for, on the other stream. That never comes back here: a point lies before
// whatever waits for it.
bool advance(StreamState& stream) {
  if (stream.items.empty()) return false;
  StreamState::Item& first = stream.items.front();
  if (first.wait) {
    while (!first.wait->passed)
      if (!advance_to(first.wait)) return false;
    stream.items.pop_front();
    return true;
  }
  DeviceAccess access;
  if (first.is_ready && !first.is_ready()) return false;
  const Work run = std::move(first.run);
  stream.items.pop_front();
  run();
  return true;
}

void run_all(StreamState& stream) {
  while (!stream.items.empty())
    if (!advance(stream)) let_others_go_on();
}

void run_all_of_device(int device) {
  const std::vector<StreamState*> streams(process().streams.begin(), process().streams.end());
  for (StreamState* stream : streams)
    if (process().streams.contains(stream) && stream->device == device) run_all(*stream);
}

void run_until(const std::shared_ptr<Point>& point) {
  while (!point->passed)
    if (!advance_to(point)) let_others_go_on();
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

void enqueue_when(void* stream, std::function<bool()> is_ready, std::function<void()> work) {
  auto lock = lock_streams();
  StreamState& queue = stream_of(stream);
  check(!queue.capture, "enqueue_when: work that waits for others is not captured into a graph");
  queue.items.push_back({std::move(work), nullptr, std::move(is_ready)});
  if (process().mode == Streams::eager) run_what_is_ready(queue);
}

int device_of(void* stream) {
  auto lock = lock_streams();
  return stream_of(stream).device;
}

StreamPriority priority_of(void* handle) {
  auto lock = lock_streams();
  return stream_of(handle).priority;
}

size_t pending(void* stream) {
  auto lock = lock_streams();
  return stream_of(stream).items.size();
}

}  // namespace reprise::cuda::emulated
