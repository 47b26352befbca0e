// The CUDA runtime of the emulator: devices, memory, streams, events and copies on the CPU. Graphs are in
// emulated_graph.cpp. It refuses what a GPU refuses, where that is cheap to see.
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/cuda/stream_priority.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "reprise/core/cuda/emulated_loading.h"
#include "reprise/core/cuda/emulated_memory.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/emulated_stream.h"
#include "reprise/core/cuda/kernel_image.h"
#include "reprise/core/error.h"
#include "reprise/core/number_in.h"

namespace reprise::cuda {
namespace {

using namespace emulated;

constexpr size_t most_devices = 16;

DeviceProperties h200(size_t index) {
  return {.name = "CUDA emulator",
          .major = 9,
          .minor = 0,
          .multiprocessors = 132,
          .memory_bytes = size_t(141) << 30,
          .shared_bytes_per_block = 227 << 10,
          .l2_bytes = size_t(50) << 20,
          .bus_id = "emulated:" + std::to_string(index)};
}

std::vector<DeviceProperties>& devices() {
  static auto* all = [] {
    const char* text = std::getenv("REPRISE_EMULATOR_DEVICES");
    std::optional<size_t> count = text ? number_in<size_t>(text) : 1;
    check(count && *count <= most_devices, "REPRISE_EMULATOR_DEVICES: needs a number from 0 to 16, got '",
          text, "'");
    auto* made = new std::vector<DeviceProperties>;
    for (size_t i = 0; i < *count; ++i) made->push_back(h200(i));
    return made;
  }();
  return *all;
}

void check_index(int device, const char* call) {
  check(device >= 0 && device < device_count(), call, ": no device ", device, " of ", device_count());
}

void refuse_capturing(const StreamState& stream, const char* call) {
  check(!stream.capture, call, ": not allowed while the stream is captured into a graph");
}

thread_local int selected = 0;
std::array<std::atomic<bool>, most_devices> lack_images{};
HostWaits waits;  // under the lock of all streams

EventState& event_of(void* event) { return *static_cast<EventState*>(event); }

// What the caller may change once a copy's call has returned must have been read by then.
Work copy_work(void* to, const void* from, size_t bytes, bool from_pageable) {
  if (!from_pageable) return [=] { std::memcpy(to, from, bytes); };
  auto* first = static_cast<const char*>(from);
  return [to, staged = std::vector<char>(first, first + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  };
}

}  // namespace

int device_count() { return int(devices().size()); }
std::string unavailable_reason() { return "REPRISE_EMULATOR_DEVICES is 0"; }
bool is_emulated() { return true; }
int least_capability() { return 80; }
std::string built_architectures() { return "the emulator"; }

void select_device(int device) {
  check_index(device, "select_device");
  selected = device;
}
int emulated::selected_device() { return selected; }

HostWaits emulated::host_waits() {
  auto lock = lock_streams();
  return waits;
}

const DeviceProperties& properties(int device) {
  check_index(device, "properties");
  return devices()[size_t(device)];
}

void emulated::set_properties(int device, const DeviceProperties& properties) {
  check_index(device, "set_properties");
  devices()[size_t(device)] = properties;
}

bool has_kernel_image(int device) {
  check_index(device, "has_kernel_image");
  return !lack_images[size_t(device)];
}

void emulated::set_kernel_image(int device, bool there) {
  check_index(device, "set_kernel_image");
  lack_images[size_t(device)] = !there;
}

void* allocate(int device, size_t bytes) {
  check_index(device, "allocate");
  refuse_unsafe("allocate", "it takes memory");
  if (device_bytes(device) + bytes > properties(device).memory_bytes) return nullptr;
  return obtain_memory(MemoryKind::device, device, bytes);
}

void release(int device, void* data) noexcept {
  auto lock = lock_streams();
  run_all_of_device(device);  // as cudaFree waits
  free_memory(data);
}

size_t free_memory(int device) {
  const size_t bytes = properties(device).memory_bytes, used = device_bytes(device);
  return bytes - std::min(bytes, used);
}

void* allocate_pinned(size_t bytes) {
  void* data = obtain_memory(MemoryKind::pinned, 0, bytes);
  check(data != nullptr, "allocate_pinned: no memory for ", bytes, " bytes");
  return data;
}

void release_pinned(void* data) noexcept {
  auto lock = lock_streams();
  for (int device = 0; device < device_count(); ++device) run_all_of_device(device);
  free_memory(data);
}

void mark_memory(void* data, size_t bytes, bool in_use, void* stream) noexcept {
  auto lock = lock_streams();
  add(stream_of(stream), WorkKind::mark, [=] { mark(data, bytes, in_use); });
}

void* create_stream(int device) {
  check_index(device, "create_stream");
  auto lock = lock_streams();
  return add_stream(device);
}

void* create_stream(int device, StreamPriority priority) {
  void* stream = create_stream(device);
  auto lock = lock_streams();
  stream_of(stream).priority = priority;
  return stream;
}

void destroy_stream(void* stream) noexcept {
  if (!stream) return;
  auto lock = lock_streams();
  run_all(stream_of(stream));
  remove_stream(&stream_of(stream));
}

void synchronize_stream(void* stream) {
  auto lock = lock_streams();
  refuse_capturing(stream_of(stream), "synchronize_stream");
  ++waits.streams;
  run_all(stream_of(stream));
}

void synchronize_device(int device) {
  check_index(device, "synchronize_device");
  auto lock = lock_streams();
  ++waits.streams;
  run_all_of_device(device);
}

void copy_async(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes == 0) return;
  auto lock = lock_streams();
  StreamState& queue = stream_of(stream);
  bool to_pageable = kind_of(to, bytes) == MemoryKind::pageable;
  bool from_pageable = kind_of(from, bytes) == MemoryKind::pageable;
  bool staged = from_pageable && !queue.capture && !runs_at_once(queue);
  add(queue, WorkKind::copy, copy_work(to, from, bytes, staged));
  if (!to_pageable || queue.capture) return;
  waits.copies += !from_pageable;
  run_all(queue);
}

void set_bytes_async(void* to, unsigned char value, size_t bytes, void* stream) {
  if (bytes == 0) return;
  auto lock = lock_streams();
  check(kind_of(to, bytes) != MemoryKind::pageable, "set_bytes_async: not device memory");
  add(stream_of(stream), WorkKind::set, [=] { std::memset(to, value, bytes); });
}

void* create_event(int device, bool) {
  check_index(device, "create_event");
  return new EventState;
}

void destroy_event(void* event) noexcept { delete static_cast<EventState*>(event); }

void record_event(void* event, void* stream) {
  auto lock = lock_streams();
  StreamState& queue = stream_of(stream);
  auto point = std::make_shared<Point>();
  point->stream = &queue;
  event_of(event).last = point;
  if (queue.capture) {
    point->captured = queue.capture;
    point->captured_works = queue.captured_works;
    return;
  }
  add(queue, WorkKind::mark, [point] {
    point->passed = true;
    point->time = std::chrono::steady_clock::now();
  });
}

// Each question runs one piece of work, so that asking again and again comes to an end.
bool is_event_done(void* event) {
  auto lock = lock_streams();
  auto point = event_of(event).last;
  if (!point || point->passed) return true;
  check(!point->captured, "is_event_done: the event was recorded while a graph was captured");
  advance(*point->stream);
  return point->passed;
}

void synchronize_event(void* event) {
  auto lock = lock_streams();
  auto point = event_of(event).last;
  if (!point) return;
  check(!point->captured, "synchronize_event: the event was recorded while a graph was captured");
  waits.events += !point->passed;
  run_until(point);
}

void wait_event(void* stream, void* event) {
  auto lock = lock_streams();
  StreamState& queue = stream_of(stream);
  auto point = event_of(event).last;
  if (!point || point->passed) return;
  if (!point->captured) {
    check(!queue.capture, "wait_event: a captured stream waits for work outside of its graph");
    if (point->stream != &queue) queue.items.push_back({{}, point, {}});
    return;
  }
  check(!queue.capture || queue.capture == point->captured, "wait_event: two captures would be joined");
  GraphState& graph = *point->captured;
  if (!queue.capture) {
    queue.capture = point->captured;
    queue.captured_works = graph.works.size();
    graph.unjoined[&queue] = true;
  }
  // Another stream's last work is joined if the point lies behind it.
  auto other = graph.unjoined.find(point->stream);
  if (other != graph.unjoined.end() && point->captured_works == point->stream->captured_works)
    other->second = false;
}

double seconds_between(void* begin, void* end) {
  auto lock = lock_streams();
  auto first = event_of(begin).last, last = event_of(end).last;
  check(first && last && first->passed && last->passed, "seconds_between: the events have not finished");
  return std::chrono::duration<double>(last->time - first->time).count();
}

}  // namespace reprise::cuda
