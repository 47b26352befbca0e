// Whether tests run on a GPU, where NVIDIA's libraries choose how they sum and take memory to work in.
#pragma once

#include "reprise/core/cuda/runtime.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {

/// The emulator is none.
inline bool on_gpu() { return test_device().type == DeviceType::cuda && !cuda::is_emulated(); }

}  // namespace reprise::testing
