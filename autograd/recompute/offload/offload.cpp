// Which bytes are parked, where, and when.
#include "reprise/autograd/recompute/offload/offload.h"

#include <iostream>

#include "reprise/core/cuda/runtime.h"

namespace reprise::recompute {
namespace {

constexpr size_t alignment = 256;              // of what is restored: as it was in its storage
constexpr size_t single_copies_under_way = 4;  // of tensors parked one by one

struct ByteRange {
  size_t begin = 0, end = 0;
};

// The bytes of the storage that a view needs. Views that take half of it or more take all, and so share it.
ByteRange range_of(const Tensor& x) {
  const TensorView& view = x.view();
  int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  const auto* start = static_cast<const char*>(x.storage()->data());
  auto first_byte = size_t(static_cast<const char*>(view.data) - start);
  size_t begin = first_byte / alignment * alignment;
  size_t end = first_byte + size_t(last + 1) * size_of(view.dtype);
  if (2 * (end - begin) >= x.storage()->bytes()) return {0, x.storage()->bytes()};
  return {begin, end};
}

bool is_kept_anyway(MemoryCategory category) {
  return category == MemoryCategory::parameters || category == MemoryCategory::gradients ||
         category == MemoryCategory::optimizer;
}

}  // namespace

Offload::Offload(OffloadOptions options) : options_(std::move(options)) {
  check(options_.keep_last >= 0, "offload: keep_last is ", options_.keep_last);
}

OffloadStats Offload::stats() const {
  OffloadStats stats = tally_->stats();
  std::lock_guard lock(mutex_);
  for (const auto& [device, place] : places_)
    if (place) {
      stats.reserved_bytes += place->reserved_bytes();
      stats.seconds_waited += place->seconds_waited();
    }
  return stats;
}

std::shared_ptr<Parked> Offload::park(const Tensor& x, std::string label) {
  settle(single_copies_under_way);
  auto parked = std::make_shared<Parked>(x, std::move(label));
  put_aside(*parked);
  return parked;
}

void Offload::put_aside(Parked& parked) {
  std::lock_guard lock(parked.mutex_);
  const Tensor& x = parked.held_;
  if (!x.defined() || x.numel() == 0 || x.version() != parked.version_)
    return;  // changed: fetching it is an Error
  ByteRange range = range_of(x);
  if (range.end - range.begin < options_.min_bytes || is_kept_anyway(x.storage()->category())) return;
  check(x.device().is_cpu() || !cuda::is_capturing(current_stream(x.device()).handle()),
        "offload: a CUDA graph is captured, which cannot park tensors of its own; capture without offload");
  try {
    parked.berth_ = berth_for(x, range.begin, range.end);
  } catch (const Error& error) {
    if (tally_->failed()) std::cerr << "offload: warning: tensors stay in memory: " << error.what() << '\n';
    return;
  }
  auto* start = static_cast<char*>(x.storage()->data()) + range.begin;
  parked.origin_ = x.storage();
  parked.origin_data_ = x.view().data;
  parked.first_byte_ = size_t(static_cast<char*>(x.view().data) - start);
  parked.held_ = Tensor();
}

std::shared_ptr<Berth> Offload::berth_for(const Tensor& x, size_t begin, size_t end) {
  const std::shared_ptr<Storage>& storage = x.storage();
  std::lock_guard lock(mutex_);
  Known& known = known_[{storage.get(), begin}];
  if (known.storage.lock() == storage && known.version == x.version() && known.end == end)
    if (auto berth = known.berth.lock()) return berth;
  TensorView bytes{
      static_cast<char*>(storage->data()) + begin, {int64_t(end - begin)}, {1}, DType::u8, x.device()};
  std::shared_ptr<Berth> berth = place_for(x.device()).park(x.alias(bytes));
  known = {storage, x.version(), end, berth};
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.berth.expired(); });
    sweep_at_ = 2 * known_.size() + 64;
  }
  return berth;
}

ParkingPlace& Offload::place_for(Device device) {
  std::shared_ptr<ParkingPlace>& place = places_[{device.type, device.index}];
  if (!place)
    place = device.is_cpu() ? make_spill_place(options_.folder, tally_) : make_pinned_place(device, tally_);
  return *place;
}

void Offload::settle(size_t under_way) {
  std::lock_guard lock(mutex_);
  for (auto& [device, place] : places_)
    if (place) place->settle(under_way);
}

std::shared_ptr<ParkedRegion> Offload::begin_region() {
  settle(0);
  std::vector<std::shared_ptr<ParkedRegion>> old;
  std::unique_lock lock(mutex_);
  auto region = std::make_shared<ParkedRegion>(shared_from_this(), newest_);
  newest_ = region;
  young_.push_back(region);
  for (; int64_t(young_.size()) > options_.keep_last; young_.pop_front())
    if (auto oldest = young_.front().lock()) old.push_back(std::move(oldest));
  lock.unlock();
  for (const auto& oldest : old) oldest->put_aside();
  return region;
}

std::shared_ptr<ParkedRegion> Offload::look_ahead(const ParkedRegion& here,
                                                  const std::shared_ptr<ParkedRegion>& before) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<ParkedRegion> ahead = ahead_.lock();
  ahead_ = before;
  return ahead == before || ahead.get() == &here ? nullptr : ahead;
}

}  // namespace reprise::recompute
