// OffloadedTensor: a tensor that backward needs later, on its device or off it.
#pragma once

#include <string>

#include "reprise/autograd/recompute/offload/offloaded_storage.h"

namespace reprise::recompute {

/// Made by Offload. Any thread may use it.
class OffloadedTensor {
 public:
  /// Holds `x`, where it is; `label` names it in messages: "checkpoint: input 0".
  OffloadedTensor(const Tensor& x, std::string label);

  /// Begins to bring the tensor back. Cheap to ask for again.
  void prefetch();
  void forget_prefetch();  ///< takes a prefetch back
  /// The tensor with its bits, shape and strides, outside of any graph; ready on the current stream. May be
  /// called again. Error naming it if it was changed in place since.
  Tensor fetch();

 private:
  friend class Offload;
  void check_version(uint64_t now) const;
  Tensor over(std::shared_ptr<Storage> origin) const;
  /// What it was moved from, if something holds it and no recorded operation in place has put another value there.
  std::shared_ptr<Storage> origin() const;

  std::mutex mutex_;
  std::string label_;
  TensorView view_;  // without data; that is `first_byte_` after the start of the storage's bytes
  uint64_t version_;
  uint32_t times_superseded_;
  Tensor held_;                    // until it is moved off
  std::weak_ptr<Storage> origin_;  // after; something else may still hold it
  void* origin_data_ = nullptr;
  Tensor ahead_;  // prefetched where it had not left yet
  size_t first_byte_ = 0;
  std::shared_ptr<OffloadedStorage> storage_;
};

}  // namespace reprise::recompute
