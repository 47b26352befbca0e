// Graph: work that is captured once and launched many times, for less than the launches of its kernels cost.
//
//   cuda::Graph step(stream, [&] { loss = train_step(tokens, targets); });   // recorded, not run
//   for (...) {
//     tokens.copy_(next_tokens);   // what it reads and writes stays where it was
//     step.launch();
//   }
#pragma once

#include <functional>

#include "reprise/core/cuda/stream.h"

namespace reprise::cuda {

/// Memory that is asked for while capturing belongs to the graph; tensors that came out of it hold what the
/// last launch wrote. Numbers that the host computed (random offsets, learning rates, shapes) are those of
/// the capture. Nothing in it may wait for the device: no item(), no to_vector().
class Graph {
 public:
  using Body = std::function<void()>;

  /// Runs `body` with `stream` as the current stream, recording what it enqueues.
  Graph(const Stream& stream, const Body& body);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  void launch();

  /// Captures anew. True if the executable graph could be kept and only changed, which is cheap; else it is
  /// built again.
  bool update(const Body& body);

 private:
  struct Capture {
    void* graph = nullptr;
    uintptr_t pool = 0;
  };
  Capture capture(const Body& body) const;
  void drop_pool();

  Stream stream_;
  void* executable_ = nullptr;
  uintptr_t pool_ = 0;
};

}  // namespace reprise::cuda
