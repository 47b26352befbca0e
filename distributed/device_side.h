// DeviceSide: what a group needs for tensors on a CUDA device: a stream of its own, and what moves bytes between the devices
// of its ranks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/core/cuda/urgent_stream.h"
#include "reprise/core/tensor.h"
#include "reprise/distributed/lane.h"

namespace reprise::distributed {

class DeviceSide {
 public:
  DeviceSide(Device device, std::chrono::milliseconds timeout);
  ~DeviceSide();

  using Tell = std::function<void(const std::string& line)>;

  /// Meets the other ranks of the group, over `host`, its lane of the CPU; rank 0 warns by `tell`, if there is one, of GPUs of
  /// different kinds. TransportError: `refused` where two ranks have the same GPU. Error where there is no NCCL.
  void join(Lane& host, const std::shared_ptr<Transport>& world, const Tell& tell);

  /// Where the caller's stream is now: what a call reads has been written there.
  std::shared_ptr<const cuda::Event> mark() const;
  /// Runs `body` with the lane of the device, behind `begin`; tells `arrive` of the point where its results are there, and
  /// returns once the device has passed it. Throws what `body` throws, or TransportError; nothing uses its memory then.
  void run(const Lane& host, const cuda::Event& begin, const std::function<void(Lane&)>& body,
           const std::function<void(std::shared_ptr<const cuda::Event>)>& arrive);

  /// Memory for a window, at least (numel); undefined where NCCL is too old. Once it has joined, and by any thread.
  Tensor window_memory(int64_t numel, DType dtype) const;
  /// Whether all ranks have made a window of their memory: a call of all, within `run`. TransportError where some could and
  /// others could not. A window keeps its memory.
  bool make_window(Lane& host, const Tensor& memory);
  /// It ends before the next call is run, or with the group, and then its memory goes. By any thread.
  void end_window(const Tensor& memory);
  /// Of the windows that have not ended, and of those that are about to. By any thread.
  size_t window_bytes() const;

 private:
  void end_windows();
  void wait(const cuda::Event& done);

  Device device_;
  std::chrono::milliseconds timeout_;
  cuda::UrgentStream stream_;  // so that messages go while kernels that compute fill the device
  mutable std::mutex mutex_;
  TensorList windows_,
      ending_;  // and those that end before the next call; their memory goes after the channel
  std::unique_ptr<NcclChannel> channel_;  // null for a rank alone
};

}  // namespace reprise::distributed
