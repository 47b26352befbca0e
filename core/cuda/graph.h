// Graph: work that is captured once and launched many times, for less than the launches of its kernels cost.
//
//   cuda::Graph step(stream, [&] { loss = train_step(tokens, targets); });   // recorded, not run
//   for (...) {
//     tokens.copy_(next_tokens);   // what it reads and writes stays where it was
//     step.launch();
//   }
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "reprise/core/cuda/stream.h"

namespace reprise::cuda {

/// Memory that is asked for while capturing belongs to the graph; tensors that came out of it hold what the
/// last launch wrote. Numbers that the host computed (random offsets, learning rates, shapes) are those of
/// the capture. Nothing in it may wait for the device: no item(), no to_vector().
class Graph {
 public:
  using Body = std::function<void()>;  ///< what is captured

  /// Runs `body` with `stream` as the current stream, recording what it enqueues. Error unless that is of a CUDA
  /// device; what `body` throws ends the capture.
  Graph(const Stream& stream, const Body& body);

  void launch();  ///< enqueues the captured work on the stream of the constructor

  /// Captures anew. True if the executable graph could be kept and only changed, which is cheap; else it is
  /// built again.
  bool update(const Body& body);

 private:
  /// Memory that the graph runs on.
  class Pool {
   public:
    explicit Pool(const Stream& stream);
    ~Pool();
    Pool(Pool&& other) noexcept : device_(other.device_), id_(std::exchange(other.id_, 0)) {}
    Pool& operator=(Pool&& other) noexcept {
      std::swap(device_, other.device_);
      std::swap(id_, other.id_);
      return *this;
    }

   private:
    Device device_;
    uintptr_t id_;
  };
  using Handle = std::unique_ptr<void, void (*)(void*) noexcept>;

  static std::pair<Pool, Handle> capture(const Stream& stream, const Body& body);
  Graph(const Stream& stream, std::pair<Pool, Handle> captured);

  Stream stream_;
  Pool pool_;
  Handle executable_;  // goes before its memory
};

// What follows is for operations and the engine, and may change.

/// Calls make(device) before each capture on a device: to make, the first time, what must not be made during
/// one, such as the handle of a library. One static object in the file that does.
struct BeforeCapture {
  /// From now on, for all captures of the process.
  explicit BeforeCapture(void (*make)(Device device));
};

}  // namespace reprise::cuda
