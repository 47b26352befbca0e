// KeptValue: a result that a policy keeps for backward and for replays.
#pragma once

#include <memory>
#include <mutex>

#include "reprise/autograd/saved_tensor.h"

namespace reprise::recompute {

/// Saved like a tensor that an operation saves: an enclosing region rebuilds it.
class KeptValue {
 public:
  KeptValue(const Tensor& x, const char* op_name)
      : saved_(x, /*is_output=*/false, op_name), op_name_(op_name) {}

  /// Error if it was changed in place since.
  Tensor read();

 private:
  autograd::SavedTensor saved_;
  const char* op_name_;
  std::mutex mutex_;
  Tensor unpacked_;  // an enclosing region hands a value out once in a pass
};

}  // namespace reprise::recompute
