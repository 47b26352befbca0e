// Copies between devices by the CUDA runtime, on the current streams.
#include "reprise/core/transfer.h"

#include <cstring>

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/stream.h"

namespace reprise {
namespace {

// What comes later on `later` waits for what is on `earlier` now.
void order(const Stream& earlier, const Stream& later) {
  if (earlier == later) return;
  cuda::Event reached(earlier.device());
  reached.record(earlier);
  reached.make_wait(later);
}

// A graph would copy again at each launch, from or to memory that the host has given away by then.
Stream host_copy_stream(Device device) {
  Stream stream = current_stream(device);
  check(!cuda::is_capturing(stream.handle()), "copy: between the host and ", device,
        " while a graph is captured; make it before, or use pinned memory");
  return stream;
}

// Both streams wait for the copy: the source may change after it, the target may be read.
void copy_between_cuda(const TensorView& from, const TensorView& to, size_t bytes) {
  Stream source = current_stream(from.device), target = current_stream(to.device);
  order(source, target);
  cuda::copy_async(to.data, from.data, bytes, target.handle());
  order(target, source);
}

}  // namespace

void copy_bytes(const TensorView& from, const TensorView& to) {
  check(from.dtype == to.dtype && from.shape == to.shape, "copy_bytes: ", from.dtype, from.shape, " to ",
        to.dtype, to.shape);
  check(from.is_contiguous() && to.is_contiguous(), "copy_bytes: not contiguous");
  size_t bytes = size_t(from.numel()) * size_of(from.dtype);
  if (bytes == 0) return;
  if (from.device.is_cpu() && to.device.is_cpu()) {
    if (!NoCompute::is_on() || bytes <= NoCompute::small) std::memcpy(to.data, from.data, bytes);
  } else if (from.device.is_cpu()) {
    cuda::copy_async(to.data, from.data, bytes, host_copy_stream(to.device).handle());
  } else if (to.device.is_cpu()) {
    Stream stream = host_copy_stream(from.device);
    cuda::copy_async(to.data, from.data, bytes, stream.handle());
    synchronize(stream);
  } else {
    copy_between_cuda(from, to, bytes);
  }
}

HostCopy::HostCopy(const TensorView& view) : view_(view) {
  if (view.device.is_cpu() || view.numel() == 0) return;
  int64_t span = 1;  // elements from the first to the last
  for (int d = 0; d < view.rank(); ++d) span += (view.shape[d] - 1) * view.strides[d];
  bytes_ = std::make_unique_for_overwrite<char[]>(size_t(span) * size_of(view.dtype));
  TensorView from{view.data, {span}, {1}, view.dtype, view.device}, to = from;
  to.data = bytes_.get();
  to.device = Device::cpu();
  copy_bytes(from, to);
  view_.data = bytes_.get();
  view_.device = Device::cpu();
}

}  // namespace reprise
