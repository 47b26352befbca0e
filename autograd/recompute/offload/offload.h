// Offload: tensors that backward needs, off their device meanwhile: in pinned host memory for CUDA, in a
// spill file for the CPU. Outputs, gradients and random draws keep their bits.
//
//   auto offload = std::make_shared<rp::Offload>();   // one for the regions of a model
//   for (auto& block : blocks)
//     x = rp::checkpoint([&](const rp::Tensor& x) { return block(x); }, x, {.offload = offload});
#pragma once

#include <deque>
#include <map>

#include "reprise/autograd/pass_local.h"
#include "reprise/autograd/recompute/offload/offloaded_tensor.h"

namespace reprise::recompute {

class OffloadedRegion;

/// What an Offload leaves on the device, and where it puts the rest.
struct OffloadOptions {
  int64_t resident_regions = 1;    ///< regions whose tensors stay: the newest ones, backward wants them first
  size_t min_bytes = 16 << 10;     ///< smaller tensors stay
  std::filesystem::path folder{};  ///< of the CPU's spill file; empty: the system's temporary folder
};

/// The store. Several threads may use one, but its order of regions is that of one chain. Memory that held
/// offloaded tensors is reserved for the next ones until the store goes.
class Offload : public std::enable_shared_from_this<Offload> {
 public:
  /// Error on a negative resident_regions.
  explicit Offload(OffloadOptions options = {});
  const OffloadOptions& options() const { return options_; }  ///< as given
  OffloadStats stats() const;                                 ///< what it did so far, on all devices

  /// Offloads a tensor at once. It stays in memory if it is small, a parameter, a gradient or of the
  /// optimizer, or if there is no room elsewhere; the first time there is a warning. Others who hold it see
  /// no difference. Error while a CUDA graph is captured.
  std::shared_ptr<OffloadedTensor> put(const Tensor& x, std::string label = "offload");

  /// A region begins, whose tensors are offloaded when `resident_regions` more have begun.
  std::shared_ptr<OffloadedRegion> begin_region();

 private:
  friend class OffloadedRegion;
  struct Known {  // offloaded and in use
    std::weak_ptr<Storage> storage;
    uint64_t version = 0;
    size_t end = 0;
    std::weak_ptr<OffloadedStorage> offloaded;
  };

  void move_off(OffloadedTensor& tensor);
  std::shared_ptr<OffloadedStorage> storage_for(const Tensor& x, size_t begin, size_t end);
  OffloadBackend& backend_for(Device device);
  void settle(size_t under_way);
  /// Backward is at `here` and will want `before` next; returns what was prefetched and is no longer wanted.
  std::shared_ptr<OffloadedRegion> look_ahead(const OffloadedRegion& here,
                                              const std::shared_ptr<OffloadedRegion>& before);

  OffloadOptions options_;
  std::shared_ptr<OffloadTally> tally_ = std::make_shared<OffloadTally>();
  mutable std::mutex mutex_;
  std::map<std::pair<DeviceType, int>, std::shared_ptr<OffloadBackend>> backends_;
  std::map<std::pair<const Storage*, size_t>, Known> known_;  // by storage and first byte
  size_t sweep_at_ = 64;
  std::deque<std::weak_ptr<OffloadedRegion>> young_;  // regions that are not offloaded yet, the newest last
  std::weak_ptr<OffloadedRegion> newest_, ahead_;     // ahead: prefetched, not fetched
};

/// What one region has in a store. When backward comes for it, the region before is prefetched.
class OffloadedRegion {
 public:
  /// Called by `Offload::begin_region`; `before` is the region that began before this one.
  OffloadedRegion(std::shared_ptr<Offload> store, std::weak_ptr<OffloadedRegion> before)
      : store_(std::move(store)), before_(std::move(before)) {}

  /// Holds `x`, now or later off the device; returns its index.
  size_t add(const Tensor& x, std::string label);
  /// See OffloadedTensor.
  Tensor fetch(size_t index);
  void prefetch();  ///< begins to bring all its tensors back

 private:
  friend class Offload;
  void move_off();
  void forget_prefetch();

  std::shared_ptr<Offload> store_;
  std::weak_ptr<OffloadedRegion> before_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<OffloadedTensor>> tensors_;
  bool is_off_ = false;  // what is added is moved off at once
  autograd::PassLocal<bool> reached_by_;
  bool reached_ = false;  // by backward: what is still in memory stays
};

}  // namespace reprise::recompute

namespace reprise {
using recompute::Offload;
using recompute::OffloadOptions;
using recompute::OffloadStats;
}  // namespace reprise
