// How a kernel says that its input is wrong: the device's side of core/cuda/error_slot.h.
//
//   const cuda::ErrorCode bad_index("embedding: index {value} at row {row} is outside [0, {limit})");
//   ... in the kernel:  if (index < 0 || index >= rows) report_error(slot, bad_index_code, row, index, rows);
//   ... at the launch:  cuda::error_slot(stream.device()), int(bad_index)
//
// After reporting, the kernel goes on without touching memory at the bad place.
#pragma once

#include "reprise/core/cuda/error_slot.h"
#include "reprise/simt/simt.h"

namespace reprise::cuda {

/// Leaves an error for the host; the first one in a slot stays, the others are dropped.
__device__ inline void report_error(ErrorSlot* slot, int code, int64_t row, int64_t value,
                                    int64_t limit = 0) {
  if (atomicCAS(&slot->claimed, 0, 1) != 0) return;
  slot->row = row;
  slot->value = value;
  slot->limit = limit;
  __threadfence_system();  // a host that sees the code sees the rest
  atomicExch(&slot->code, code);
}

}  // namespace reprise::cuda
