// Which gradients of a thread are those of a scaled loss, so that their norm is not taken for the gradients' own.
#pragma once

#include <memory>

#include "reprise/core/tensor.h"

namespace reprise::optim::detail {

/// What a thread is told of one scaler.
struct ScaledThread;

/// From `begin` until `end`, or its own, gradients of the thread that began are those of a scaled loss: all but those of
/// the parameters that were added since. Any thread may end it, and that which began may be gone by then.
class ScaledScope {
 public:
  ScaledScope() = default;
  ~ScaledScope() { end(); }
  ScaledScope(const ScaledScope&) = delete;

  void begin();
  void add_unscaled(const TensorList& parameters);
  void end();

 private:
  std::shared_ptr<ScaledThread> thread_;
};

/// Error, naming `op`, if a gradient of the parameters may be one of a scaled loss of this thread.
void check_unscaled(const char* op, const TensorList& parameters);

}  // namespace reprise::optim::detail
