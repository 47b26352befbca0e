// KeptValue: a result that a policy keeps for backward and for replays.
#pragma once

#include <memory>
#include <mutex>

#include "reprise/autograd/pass_local.h"
#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/autograd/recompute/replay/op_recorder.h"
#include "reprise/autograd/saved_tensor.h"

namespace reprise::recompute {

/// Saved like a tensor that an operation saves, so that an enclosing region rebuilds it; or in a store.
class KeptValue : public std::enable_shared_from_this<KeptValue> {
 public:
  KeptValue(const Tensor& x, const char* op_name)
      : saved_(x, /*is_output=*/false, op_name), op_name_(op_name), device_bytes_(x.storage()->bytes()) {}
  KeptValue(const Tensor& x, const char* op_name, std::shared_ptr<OffloadedRegion> store)
      : op_name_(op_name), store_(std::move(store)), place_(store_->add(x, op_name)) {}

  /// Error if it was changed in place since.
  Tensor read();
  /// Whether an enclosing region rebuilds it: reading it may play that one again.
  bool is_packed() const { return saved_.is_packed(); }
  /// What it holds on the device: nothing if it is in a store.
  size_t device_bytes() const { return device_bytes_; }

 private:
  // At the end of the pass that unpacked the value it is let go.
  struct InPass {
    std::weak_ptr<KeptValue> value;
    ~InPass();
  };

  autograd::SavedTensor saved_;
  const char* op_name_;
  std::shared_ptr<OffloadedRegion> store_;  // has it, if there is one
  size_t place_ = 0;
  size_t device_bytes_ = 0;
  std::mutex mutex_;
  autograd::PassLocal<InPass> in_pass_;
  Tensor unpacked_;  // an enclosing region hands a value out once in a pass; gone when the pass ends
};

/// After a first run: what the policy wants kept goes to the slots that read it, or whose rebuilding does.
/// With the last of them it is let go.
void keep_results(Recording& recording, OpRecorder& ops);

}  // namespace reprise::recompute
