// LateRead: a few numbers of a device, on their way to the host while it goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/pinned.h"
#include "reprise/core/view.h"

namespace reprise::cuda {

/// Reads tensors of one element each without waiting for the kernels that make them, so that a log can be written a step
/// late. It may be started again and again. On the CPU the numbers are there at once.
class LateRead {
 public:
  /// For so many numbers of `device`.
  LateRead(Device device, size_t count);
  /// Waits for copies that are under way.
  ~LateRead();
  LateRead(const LateRead&) = delete;

  /// Asks for the values that `numbers` have once all that is on the current stream now is done. Error if they are not one
  /// element each on the device, in f64, f32, i64 or i32; or while a graph is captured.
  void start(std::span<const TensorView> numbers);
  /// Whether `finish` would not wait; true if it was never started.
  bool is_done() const;
  /// The numbers that were asked for last, in their order. Waits for them, not for what came onto the stream since; throws
  /// what kernels have reported.
  std::vector<double> finish();

 private:
  Device device_;
  std::vector<DType> dtypes_;
  PinnedBuffer slots_;           // 8 bytes a number
  std::optional<Event> copied_;  // of CUDA devices
};

}  // namespace reprise::cuda
