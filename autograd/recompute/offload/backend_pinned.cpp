// Offloading for a CUDA device: pinned host memory, with copies on a stream of their own.
//
// Note [Copies beside compute]
// Three things must come in order, and no host waits for any of them:
// - A copy to the host comes after the work that makes the tensor: the copy stream waits for an event on the
//   current stream. The tensor is held meanwhile. `settle` makes the stream that the tensor's memory belongs
//   to wait for the copy, and only then lets it go: what reuses the memory comes later on that stream.
// - A copy back writes to memory that earlier work may still use: the copy stream waits for the current one.
//   A fetch makes its current stream wait for the copy.
// - All copies of a backend are on one stream, so a pinned buffer may be written as soon as its last owner
//   has given it back.
// Allocator::record_stream would order the first too, but then the memory is free only when the host sees
// that the copy has ended: the host runs ahead, and would ask the system for more meanwhile.
#include <iostream>
#include <list>
#include <optional>

#include "reprise/autograd/recompute/offload/offloaded_storage.h"
#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/pinned_pool.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/core/cuda/wait_clock.h"

namespace reprise::recompute {
namespace {

// For where nothing may be thrown. An error of the device comes again at its next use.
void warn_instead(const auto& action) noexcept {
  try {
    action();
  } catch (const std::exception& error) { std::cerr << "offload: warning: " << error.what() << '\n'; }
}

class PinnedStorage;

// The copy stream, the buffers that it copies from and to, and what is on its way to them.
class CopyStream {
 public:
  explicit CopyStream(Device device) : stream_(device) {}
  ~CopyStream() {
    warn_instead([&] { synchronize(stream_.get()); });  // before the buffers go
  }
  CopyStream(const CopyStream&) = delete;

  cuda::PinnedPool& pool() { return pool_; }
  cuda::WaitClock& clock() { return clock_; }
  /// Copies after all that is on `current` now; `done` is the point after it.
  void copy(void* to, const void* from, size_t bytes, const Stream& current, cuda::Event& done) {
    cuda::Event ready(current.device());
    ready.record(current);
    ready.make_wait(stream_.get());
    cuda::copy_async(to, from, bytes, stream_.get().handle());
    done.record(stream_.get());
  }

  /// Holds the device's memory of what is being copied to the storage.
  void hold(const Tensor& bytes, cuda::Event copied, std::weak_ptr<PinnedStorage> storage) {
    std::lock_guard lock(mutex_);
    leaving_.push_back({bytes, bytes.version(), std::move(copied), std::move(storage)});
  }
  void settle(size_t under_way);
  /// Lets go of what was on its way to storages that are gone.
  void drop_unwanted();

 private:
  struct Leaving {
    Tensor bytes;
    uint64_t version;
    cuda::Event copied;
    std::weak_ptr<PinnedStorage> storage;
  };

  cuda::PinnedPool pool_;
  cuda::OwnedStream stream_;
  cuda::WaitClock clock_;
  std::mutex mutex_;
  std::list<Leaving> leaving_;  // the newest last
};

class PinnedStorage final : public OffloadedStorage {
 public:
  PinnedStorage(std::shared_ptr<CopyStream> copies, cuda::PinnedBuffer buffer, const Tensor& bytes,
                std::shared_ptr<OffloadTally> tally)
      : OffloadedStorage(size_t(bytes.numel()), bytes.storage()->category(), std::move(tally)),
        copies_(std::move(copies)),
        device_(bytes.device()),
        bytes_(size_t(bytes.numel())),
        buffer_(std::move(buffer)) {}
  ~PinnedStorage() override {
    forget_read();
    warn_instead([&] { copies_->drop_unwanted(); });
    copies_->pool().give_back(std::move(buffer_));
  }

  void copy_from(const Tensor& bytes, cuda::Event& copied) {
    copies_->copy(buffer_.data(), bytes.view().data, bytes_, current_stream(device_), copied);
  }
  void tear() { torn_ = true; }

 private:
  void begin_read() override {
    Tensor bytes = Tensor::empty({int64_t(bytes_)}, DType::u8, device_);
    if (!arrived_) arrived_.emplace(device_);
    copies_->copy(bytes.view().data, buffer_.data(), bytes_, current_stream(device_), *arrived_);
    tally().change([&](OffloadStats& stats) { stats.read_bytes += bytes_; });
    incoming_ = std::move(bytes);
  }

  Tensor end_read() override {
    if (!incoming_.defined()) begin_read();
    Tensor bytes = std::exchange(incoming_, Tensor());
    join_read(*bytes.storage());
    return bytes;
  }

  void join_read(const Storage& bytes) override {
    Stream here = current_stream(device_);
    copies_->clock().wait(*arrived_, here);
    if (here == bytes.stream()) return;
    arrived_->make_wait(bytes.stream());  // so that its memory may go as any other
    bytes.record_stream(here);
  }

  void forget_read() noexcept override {
    if (Tensor bytes = std::exchange(incoming_, Tensor()); bytes.defined())
      warn_instead([&] { arrived_->make_wait(bytes.storage()->stream()); });
  }

  std::shared_ptr<CopyStream> copies_;
  Device device_;
  size_t bytes_;
  cuda::PinnedBuffer buffer_;
  Tensor incoming_;  // prefetched, maybe still on its way
  std::optional<cuda::Event> arrived_;
};

void CopyStream::settle(size_t under_way) {
  std::list<Leaving> gone;
  std::vector<std::shared_ptr<PinnedStorage>> torn;  // their last owner must not be in here under the lock
  std::lock_guard lock(mutex_);
  while (leaving_.size() > under_way) {
    Leaving& oldest = leaving_.front();
    clock_.wait(oldest.copied, oldest.bytes.storage()->stream());
    if (oldest.bytes.version() != oldest.version)  // what changed it may have come before the copy
      if (auto storage = oldest.storage.lock()) torn.push_back(std::move(storage));
    gone.splice(gone.end(), leaving_, leaving_.begin());
  }
  for (const auto& storage : torn) storage->tear();
}

void CopyStream::drop_unwanted() {
  std::lock_guard lock(mutex_);
  std::erase_if(leaving_, [](const Leaving& leaving) {
    if (!leaving.storage.expired()) return false;
    leaving.copied.make_wait(leaving.bytes.storage()->stream());
    return true;
  });
}

class PinnedBackend final : public OffloadBackend {
 public:
  PinnedBackend(Device device, std::shared_ptr<OffloadTally> tally)
      : copies_(std::make_shared<CopyStream>(device)), tally_(std::move(tally)) {}

  std::shared_ptr<OffloadedStorage> put(const Tensor& bytes) override {
    auto storage =
        std::make_shared<PinnedStorage>(copies_, copies_->pool().take(size_t(bytes.numel())), bytes, tally_);
    cuda::Event copied(bytes.device());
    storage->copy_from(bytes, copied);
    copies_->hold(bytes, std::move(copied), storage);
    return storage;
  }
  void settle(size_t under_way) override { copies_->settle(under_way); }
  size_t reserved_bytes() const override { return copies_->pool().bytes(); }

 private:
  std::shared_ptr<CopyStream> copies_;
  std::shared_ptr<OffloadTally> tally_;
};

}  // namespace

std::shared_ptr<OffloadBackend> make_pinned_backend(Device device, std::shared_ptr<OffloadTally> tally) {
  return std::make_shared<PinnedBackend>(device, std::move(tally));
}

}  // namespace reprise::recompute
