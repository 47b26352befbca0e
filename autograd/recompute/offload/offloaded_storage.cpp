// What storages of all kinds have in common: counting, and sharing what was fetched.
#include "reprise/autograd/recompute/offload/offloaded_storage.h"

#include <algorithm>
#include <utility>

namespace reprise::recompute {

OffloadedStorage::OffloadedStorage(size_t bytes, MemoryCategory category, std::shared_ptr<OffloadTally> tally)
    : bytes_(bytes), category_(category), tally_(std::move(tally)) {
  tally_->change([&](OffloadStats& stats) {
    stats.written_bytes += bytes_;
    stats.offloaded_bytes += bytes_;
    stats.peak_offloaded_bytes = std::max(stats.peak_offloaded_bytes, stats.offloaded_bytes);
  });
}

OffloadedStorage::~OffloadedStorage() {
  tally_->change([&](OffloadStats& stats) { stats.offloaded_bytes -= bytes_; });
}

void OffloadedStorage::prefetch() {
  std::lock_guard lock(mutex_);
  if (begun_ || !back_.expired()) return;
  MemoryScope scope(category_);
  try {
    begin_read();
    begun_ = true;
  } catch (const OutOfMemory&) {
    // There is room again when what comes before has been let go; `fetch` reads then.
  }
}

void OffloadedStorage::forget() {
  std::lock_guard lock(mutex_);
  if (std::exchange(begun_, false)) forget_read();
}

Tensor OffloadedStorage::fetch() {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Storage> back = back_.lock();
  if (back && back->version() == back_version_) {
    join_read(*back);
    TensorView view{back->data(), {int64_t(bytes_)}, {1}, DType::u8, back->device()};
    return Tensor::over(std::move(back), view);
  }
  MemoryScope scope(category_);
  Tensor bytes = end_read();
  bool was_begun = std::exchange(begun_, false);
  tally_->change([&](OffloadStats& stats) { ++(was_begun ? stats.prefetch_hits : stats.prefetch_misses); });
  back_ = bytes.storage();
  back_version_ = bytes.version();
  return bytes;
}

}  // namespace reprise::recompute
