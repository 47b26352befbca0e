// What a kernel found wrong in its input: the host's side. A kernel cannot throw, so it leaves the first
// error in its device's slot (simt/device_errors.h), and the host throws it where it next waits for the
// device: in `synchronize`, `item`, `to_vector`, and every other copy to the host.
#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/core/device.h"

namespace reprise::cuda {

/// One per device, in host memory that the device can write. The first error claims it and stays; its code, 0
/// until then, is written last.
struct ErrorSlot {
  int claimed = 0, code = 0;
  int64_t row = 0, value = 0, limit = 0;
};

/// A kind of error, one static object beside the kernel that reports it. The text names the op and the fact;
/// {row}, {value} and {limit} stand for what the kernel reports:
///   const cuda::ErrorCode bad_index("embedding: index {value} at row {row} is outside [0, {limit})");
class ErrorCode {
 public:
  explicit ErrorCode(std::string_view text);
  operator int() const { return code_; }

 private:
  int code_;
};

/// The slot to give to kernels on `device`. Error if the device is not there.
ErrorSlot* error_slot(Device device);

/// Throws what kernels that have finished left in the slot, and empties it.
void throw_device_error(Device device);

}  // namespace reprise::cuda
