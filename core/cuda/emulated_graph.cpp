// The emulator's graphs: what was captured runs again in the order of capture.
#include "reprise/core/cuda/emulated_loading.h"
#include "reprise/core/cuda/emulated_stream.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

using namespace emulated;
using GraphHandle = std::shared_ptr<GraphState>;
using Works = std::shared_ptr<const std::vector<Recorded>>;  // launches that have not run yet keep theirs

std::vector<WorkKind> shape_of(const std::vector<Recorded>& works) {
  std::vector<WorkKind> kinds;
  for (const Recorded& work : works)
    if (work.kind != WorkKind::mark) kinds.push_back(work.kind);
  return kinds;
}

}  // namespace

void begin_capture(void* stream) { emulated::begin_capture(stream, mode_of_captures); }

void emulated::begin_capture(void* stream, CaptureMode mode) {
  auto lock = lock_streams();
  check(stream != nullptr, "begin_capture: the default stream cannot be captured");
  StreamState& queue = stream_of(stream);
  check(!queue.capture, "begin_capture: the stream is captured already");
  queue.capture = std::make_shared<GraphState>();
  queue.capture->origin = &queue;
  queue.capture->mode = mode;
  queue.capture->thread = std::this_thread::get_id();
  queue.captured_works = 0;
}

bool is_capturing(void* stream) {
  auto lock = lock_streams();
  return stream_of(stream).capture != nullptr;
}

void* end_capture(void* stream) {
  auto lock = lock_streams();
  GraphHandle graph = stream_of(stream).capture;
  check(graph && graph->origin == &stream_of(stream), "end_capture: no capture began on this stream");
  check(graph->mode == CaptureMode::relaxed || graph->thread == std::this_thread::get_id(),
        "end_capture: another thread began the capture, and not as a relaxed one");
  stream_of(stream).capture = nullptr;
  bool joined = true;
  for (auto [other, unjoined] : graph->unjoined) {
    other->capture = nullptr;
    joined = joined && !unjoined;
  }
  check(graph->broken_by.empty(), "end_capture: ", graph->broken_by, " made the capture invalid");
  check(joined, "end_capture: a stream was drawn into the capture, and nothing waits for its last work");
  return new GraphHandle(graph);
}

void* instantiate_graph(void* graph) {
  return new Works(std::make_shared<std::vector<Recorded>>((*static_cast<GraphHandle*>(graph))->works));
}

bool update_graph(void* executable, void* graph) {
  Works& works = *static_cast<Works*>(executable);
  const auto& captured = (*static_cast<GraphHandle*>(graph))->works;
  if (shape_of(*works) != shape_of(captured)) return false;
  works = std::make_shared<std::vector<Recorded>>(captured);
  return true;
}

void launch_graph(void* executable, void* stream) {
  auto lock = lock_streams();
  add(stream_of(stream), WorkKind::graph, [works = *static_cast<Works*>(executable)] {
    for (const Recorded& work : *works) work.run();
  });
}

void destroy_graph(void* graph) noexcept { delete static_cast<GraphHandle*>(graph); }
void destroy_executable(void* executable) noexcept { delete static_cast<Works*>(executable); }

}  // namespace reprise::cuda
