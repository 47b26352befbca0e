// PinnedPool: pinned buffers that are used again, for pinning memory costs far more than copying it.
#pragma once

#include <mutex>
#include <vector>

#include "reprise/core/cuda/pinned.h"

namespace reprise::cuda {

/// Any thread may use it. Who gives a buffer back says thereby that the next owner's copies come after all of
/// his own: they are on one stream, or have ended.
class PinnedPool {
 public:
  /// At least `bytes`, less than twice that.
  PinnedBuffer take(size_t bytes);
  void give_back(PinnedBuffer buffer) noexcept;
  size_t bytes() const;  ///< pinned through this pool, in use or not

 private:
  mutable std::mutex mutex_;
  std::vector<PinnedBuffer> idle_;  // has room for all
  size_t count_ = 0, bytes_ = 0;    // of all
};

}  // namespace reprise::cuda
