// Graph: capture with a pool of memory of its own, instantiate, update.
#include "reprise/core/cuda/graph.h"

#include <vector>

#include "reprise/core/cuda/error_slot.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/storage.h"

namespace reprise::cuda {
namespace {

class PoolScope {
 public:
  explicit PoolScope(const Stream& stream) : stream_(stream) {}
  ~PoolScope() { allocator(stream_.device()).leave_pool(stream_); }
  PoolScope(const PoolScope&) = delete;

 private:
  Stream stream_;
};

class CountedCapture {
 public:
  CountedCapture() { ++reprise::detail::captures_in_progress; }
  ~CountedCapture() { --reprise::detail::captures_in_progress; }
  CountedCapture(const CountedCapture&) = delete;
};

// Filled by static objects before main, so it is a function's static.
std::vector<void (*)(Device)>& makers() {
  static std::vector<void (*)(Device)> all;
  return all;
}

}  // namespace

BeforeCapture::BeforeCapture(void (*make)(Device device)) { makers().push_back(make); }

Graph::Pool::Pool(const Stream& stream)
    : device_(stream.device()), id_(allocator(stream.device()).enter_pool(stream)) {}

// Launches may still run: giving memory back to the system waits for them.
Graph::Pool::~Pool() {
  if (id_) allocator(device_).dissolve_pool(id_);
}

Graph::Graph(const Stream& stream, const Body& body) : Graph(stream, capture(stream, body)) {}

Graph::Graph(const Stream& stream, std::pair<Pool, Handle> captured)
    : stream_(stream),
      pool_(std::move(captured.first)),
      executable_(instantiate_graph(captured.second.get()), destroy_executable) {}

void Graph::launch() { launch_graph(executable_.get(), stream_.handle()); }

bool Graph::update(const Body& body) {
  auto [pool, graph] = capture(stream_, body);
  bool kept = update_graph(executable_.get(), graph.get());
  if (!kept) executable_ = Handle(instantiate_graph(graph.get()), destroy_executable);
  std::swap(pool_, pool);
  return kept;
}

std::pair<Graph::Pool, Graph::Handle> Graph::capture(const Stream& stream, const Body& body) {
  check(stream.device().is_cuda(), "Graph: ", stream.device(), " has none");
  error_slot(stream.device());  // made now if it is not there: not while capturing
  for (auto make : makers()) make(stream.device());
  StreamScope current(stream);
  Pool pool(stream);
  PoolScope scope(stream);
  const CountedCapture counted;
  begin_capture(stream.handle());
  try {
    body();
  } catch (...) {
    try {
      destroy_graph(end_capture(stream.handle()));
    } catch (const Error&) {
      // What the body threw broke the capture, and says more.
    }
    throw;
  }
  Handle graph(end_capture(stream.handle()), destroy_graph);
  return {std::move(pool), std::move(graph)};
}

}  // namespace reprise::cuda
