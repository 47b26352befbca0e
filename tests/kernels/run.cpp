// Staging: host arrays on a device and back.
#include "reprise/tests/kernels/run.h"

#include <algorithm>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/tensor.h"

namespace reprise::kernels::testing {
namespace {

constexpr uintptr_t alignment = 256;

// The bytes between the first and behind the last element.
std::pair<std::byte*, std::byte*> extent_of(const TensorView& view) {
  int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  auto* begin = static_cast<std::byte*>(view.data);
  return {begin, begin + (size_t(last) + 1) * size_of(view.dtype)};
}

}  // namespace

Staging::~Staging() {
  for (Range& range : ranges_) cuda::release(device_.index, range.block);
}

void Staging::collect_view(const TensorView& view) {
  if (!view || view.numel() == 0) return;
  auto [begin, end] = extent_of(view);
  auto overlaps = [&](const Range& range) { return begin < range.end && range.begin < end; };
  for (const Range& range : ranges_)
    if (overlaps(range)) {
      begin = std::min(begin, range.begin);
      end = std::max(end, range.end);
    }
  std::erase_if(ranges_, overlaps);
  ranges_.push_back({begin, end});
}

void Staging::upload() {
  for (Range& range : ranges_) {
    size_t skipped = reinterpret_cast<uintptr_t>(range.begin) % alignment,
           bytes = size_t(range.end - range.begin);
    range.block = cuda::allocate(device_.index, skipped + bytes);
    invariant(range.block != nullptr, "staging: no room for ", bytes, " bytes");
    range.device = static_cast<std::byte*>(range.block) + skipped;
    cuda::copy_async(range.device, range.begin, bytes, current_stream(device_).handle());
  }
}

void Staging::download() {
  for (const Range& range : ranges_)
    cuda::copy_async(range.begin, range.device, size_t(range.end - range.begin),
                     current_stream(device_).handle());
  cuda::synchronize_stream(current_stream(device_).handle());
}

TensorView Staging::mapped_view(const TensorView& view) const {
  TensorView result = view;
  result.device = device_;
  if (!view || view.numel() == 0) return result;
  auto* data = static_cast<std::byte*>(view.data);
  for (const Range& range : ranges_)
    if (range.begin <= data && data < range.end) {
      result.data = range.device + (data - range.begin);
      return result;
    }
  throw Bug("staging: a view was not collected");
}

}  // namespace reprise::kernels::testing
