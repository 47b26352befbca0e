// Which bytes are offloaded, where, and when.
#include "reprise/autograd/recompute/offload/offload.h"

#include <iostream>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/overlap.h"

namespace reprise::recompute {
namespace {

constexpr size_t alignment = 256;              // of what is restored: as it was in its storage
constexpr size_t single_copies_under_way = 4;  // of tensors offloaded one by one

struct ByteRange {
  size_t begin = 0, end = 0;
};

// The bytes of the storage that a view needs. Views that take half of it or more take all, and so share it.
ByteRange range_of(const Tensor& x) {
  const TensorView& view = x.view();
  const auto* start = static_cast<const char*>(x.storage()->data());
  auto first_byte = size_t(static_cast<const char*>(view.data) - start);
  size_t begin = first_byte / alignment * alignment;
  size_t end = first_byte + bytes_spanned(view);
  if (2 * (end - begin) >= x.storage()->bytes()) return {0, x.storage()->bytes()};
  return {begin, end};
}

bool stays_anyway(MemoryCategory category) {
  return category == MemoryCategory::parameters || category == MemoryCategory::gradients ||
         category == MemoryCategory::optimizer;
}

}  // namespace

Offload::Offload(OffloadOptions options) : options_(std::move(options)) {
  check(options_.resident_regions >= 0, "offload: resident_regions is ", options_.resident_regions);
}

OffloadStats Offload::stats() const {
  OffloadStats stats = tally_->stats();
  std::lock_guard lock(mutex_);
  for (const auto& [device, backend] : backends_)
    if (backend) {
      stats.reserved_bytes += backend->reserved_bytes();
      stats.seconds_waited += backend->seconds_waited();
    }
  return stats;
}

std::shared_ptr<OffloadedTensor> Offload::put(const Tensor& x, std::string label) {
  settle(single_copies_under_way);
  auto tensor = std::make_shared<OffloadedTensor>(x, std::move(label));
  move_off(*tensor);
  return tensor;
}

void Offload::move_off(OffloadedTensor& tensor) {
  std::lock_guard lock(tensor.mutex_);
  const Tensor& x = tensor.held_;
  if (!x.defined() || x.numel() == 0 || x.version() != tensor.version_)
    return;  // changed: fetching it is an Error
  ByteRange range = range_of(x);
  if (range.end - range.begin < options_.min_bytes || stays_anyway(x.storage()->category())) return;
  check(
      x.device().is_cpu() || !cuda::is_capturing(current_stream(x.device()).handle()),
      "offload: a CUDA graph is captured, which cannot offload tensors of its own; capture without offload");
  try {
    tensor.storage_ = storage_for(x, range.begin, range.end);
  } catch (const Error& error) {
    bool is_first = false;
    tally_->change([&](OffloadStats& stats) { is_first = stats.failures++ == 0; });
    if (is_first) std::cerr << "offload: warning: tensors stay in memory: " << error.what() << '\n';
    return;
  }
  auto* start = static_cast<char*>(x.storage()->data()) + range.begin;
  tensor.origin_ = x.storage();
  tensor.origin_data_ = x.view().data;
  tensor.first_byte_ = size_t(static_cast<char*>(x.view().data) - start);
  tensor.held_ = Tensor();
}

std::shared_ptr<OffloadedStorage> Offload::storage_for(const Tensor& x, size_t begin, size_t end) {
  const std::shared_ptr<Storage>& storage = x.storage();
  std::lock_guard lock(mutex_);
  Known& known = known_[{storage.get(), begin}];
  if (known.storage.lock() == storage && known.version == x.version() && known.end == end)
    if (auto offloaded = known.offloaded.lock()) return offloaded;
  TensorView bytes{
      static_cast<char*>(storage->data()) + begin, {int64_t(end - begin)}, {1}, DType::u8, x.device()};
  std::shared_ptr<OffloadedStorage> offloaded = backend_for(x.device()).put(x.alias(bytes));
  known = {storage, x.version(), end, offloaded};
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.offloaded.expired(); });
    sweep_at_ = 2 * known_.size() + 64;
  }
  return offloaded;
}

OffloadBackend& Offload::backend_for(Device device) {
  std::shared_ptr<OffloadBackend>& backend = backends_[{device.type, device.index}];
  if (!backend)
    backend =
        device.is_cpu() ? make_spill_backend(options_.folder, tally_) : make_pinned_backend(device, tally_);
  return *backend;
}

void Offload::settle(size_t under_way) {
  std::lock_guard lock(mutex_);
  for (auto& [device, backend] : backends_)
    if (backend) backend->settle(under_way);
}

std::shared_ptr<OffloadedRegion> Offload::begin_region() {
  settle(0);
  std::vector<std::shared_ptr<OffloadedRegion>> old;
  std::unique_lock lock(mutex_);
  auto region = std::make_shared<OffloadedRegion>(shared_from_this(), newest_);
  newest_ = region;
  young_.push_back(region);
  for (; int64_t(young_.size()) > options_.resident_regions; young_.pop_front())
    if (auto oldest = young_.front().lock()) old.push_back(std::move(oldest));
  lock.unlock();
  for (const auto& oldest : old) oldest->move_off();
  return region;
}

std::shared_ptr<OffloadedRegion> Offload::look_ahead(const OffloadedRegion& here,
                                                     const std::shared_ptr<OffloadedRegion>& before) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<OffloadedRegion> ahead = ahead_.lock();
  ahead_ = before;
  return ahead == before || ahead.get() == &here ? nullptr : ahead;
}

}  // namespace reprise::recompute
