// Moving bytes between devices, and reading on the host what lies on another device.
#pragma once

#include <memory>

#include "reprise/core/view.h"

namespace reprise {

/// to = from: contiguous views of one dtype and shape, on any devices. Comes in order with the current
/// streams; if it ends on the CPU, it has ended, and what kernels reported until then is thrown.
void copy_bytes(const TensorView& from, const TensorView& to);

/// A view that the host can read: the view itself if it lies on the CPU, else a copy of what it spans.
class HostCopy {
 public:
  explicit HostCopy(const TensorView& view);
  const TensorView& view() const { return view_; }

 private:
  std::unique_ptr<char[]> bytes_;
  TensorView view_;
};

}  // namespace reprise
