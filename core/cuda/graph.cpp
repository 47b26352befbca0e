// Graph: capture with a pool of memory of its own, instantiate, update.
#include "reprise/core/cuda/graph.h"

#include <memory>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/memory.h"

namespace reprise::cuda {
namespace {

using Captured = std::unique_ptr<void, void (*)(void*) noexcept>;

// The stream takes memory from a new pool while it lives. Unless kept, the pool goes with it.
class PoolScope {
 public:
  explicit PoolScope(const Stream& stream)
      : stream_(stream), pool_(allocator(stream.device()).enter_pool(stream)) {}
  ~PoolScope() {
    allocator(stream_.device()).leave_pool(stream_);
    if (pool_) allocator(stream_.device()).dissolve_pool(pool_);
  }
  PoolScope(const PoolScope&) = delete;
  uintptr_t keep() { return std::exchange(pool_, 0); }

 private:
  Stream stream_;
  uintptr_t pool_;
};

}  // namespace

Graph::Graph(const Stream& stream, const Body& body) : stream_(stream) {
  check(stream.device().is_cuda(), "Graph: ", stream.device(), " has none");
  Capture captured = capture(body);
  Captured graph(captured.graph, destroy_graph);
  pool_ = captured.pool;
  try {
    executable_ = instantiate_graph(captured.graph);
  } catch (...) {
    drop_pool();
    throw;
  }
}

Graph::~Graph() {
  if (executable_) destroy_executable(executable_);
  drop_pool();
}

Graph::Graph(Graph&& other) noexcept
    : stream_(other.stream_),
      executable_(std::exchange(other.executable_, nullptr)),
      pool_(std::exchange(other.pool_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(executable_, other.executable_);
  std::swap(pool_, other.pool_);
  return *this;
}

void Graph::launch() { launch_graph(executable_, stream_.handle()); }

bool Graph::update(const Body& body) {
  Capture captured = capture(body);
  Captured graph(captured.graph, destroy_graph);
  bool kept = update_graph(executable_, captured.graph);
  if (!kept) {
    destroy_executable(executable_);
    executable_ = nullptr;
    executable_ = instantiate_graph(captured.graph);
  }
  drop_pool();
  pool_ = captured.pool;
  return kept;
}

Graph::Capture Graph::capture(const Body& body) const {
  StreamScope current(stream_);
  PoolScope pool(stream_);
  begin_capture(stream_.handle());
  try {
    body();
  } catch (...) {
    try {
      destroy_graph(end_capture(stream_.handle()));
    } catch (const Error&) {
      // The capture was broken by what the body threw, which says more.
    }
    throw;
  }
  void* graph = end_capture(stream_.handle());
  return {graph, pool.keep()};
}

// Launches may still run: giving memory back waits for them.
void Graph::drop_pool() {
  if (pool_) allocator(stream_.device()).dissolve_pool(std::exchange(pool_, 0));
}

}  // namespace reprise::cuda
