// OffloadedStorage: where the bytes of one storage lie while they are off their device. Each kind of device
// has a kind of place for them: pinned host memory for CUDA, a spill file for the CPU.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

#include "reprise/autograd/recompute/offload/offload_stats.h"
#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// What was offloaded twice shares one. Its bytes are let go with it.
class OffloadedStorage {
 public:
  OffloadedStorage(size_t bytes, MemoryCategory category, std::shared_ptr<OffloadTally> tally);
  virtual ~OffloadedStorage();
  OffloadedStorage(const OffloadedStorage&) = delete;

  /// Begins to bring the bytes back, so that `fetch` need not wait. Does nothing if there is no room for
  /// them.
  void prefetch();
  /// Takes a prefetch back.
  void forget();
  /// The bytes on their device again, a u8 tensor, ready on the current stream. They stay offloaded as well.
  Tensor fetch();
  /// Whether the bytes were changed before they had been copied: then they are lost.
  bool is_torn() const { return torn_.load(); }

 protected:
  virtual void begin_read() = 0;
  /// Begins unless it has begun.
  virtual Tensor end_read() = 0;
  /// For bytes that were read before: the current stream waits for them.
  virtual void join_read(const Storage&) {}
  virtual void forget_read() noexcept {}

  OffloadTally& tally() { return *tally_; }

  std::atomic<bool> torn_{false};

 private:
  size_t bytes_;
  MemoryCategory category_;
  std::shared_ptr<OffloadTally> tally_;
  std::mutex mutex_;
  bool begun_ = false;
  std::weak_ptr<Storage> back_;  // what was fetched last, with its version then: others may want it too
  uint64_t back_version_ = 0;
};

/// Where the tensors of one device are offloaded. Its storages keep it alive.
class OffloadBackend {
 public:
  virtual ~OffloadBackend() = default;
  /// Copies the bytes, a contiguous u8 tensor. Error if there is no room.
  virtual std::shared_ptr<OffloadedStorage> put(const Tensor& bytes) = 0;
  /// Lets the device's memory of what was offloaded go, except for the newest `under_way` copies. The device
  /// may wait for copies here, the host does not.
  virtual void settle(size_t under_way) = 0;
  virtual size_t reserved_bytes() const = 0;
  /// What the device's streams waited for copies, in seconds.
  virtual double seconds_waited() const { return 0; }
};

std::shared_ptr<OffloadBackend> make_spill_backend(std::filesystem::path folder,
                                                   std::shared_ptr<OffloadTally> tally);
std::shared_ptr<OffloadBackend> make_pinned_backend(Device device, std::shared_ptr<OffloadTally> tally);

}  // namespace reprise::recompute
