// The code of kernels, which CUDA loads when a kernel is first used ("lazy loading"), and what a capture forbids meanwhile. Used in
// builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cstddef>

#include "reprise/core/cuda/capture_mode.h"

namespace reprise::cuda::emulated {

/// `begin_capture` of another mode than that of our graphs.
void begin_capture(void* stream, CaptureMode mode);

/// Called for each launch of `kernel`: loads its code where nothing has used it on the device. Error naming `name` where this
/// thread may not load now.
void load_kernel(int device, const void* kernel, const char* name);

/// Kernels whose code is on the device.
size_t loaded_kernels(int device);

/// From now on all devices are as in a process that has launched no kernel.
void forget_kernels();

/// For calls that CUDA names potentially unsafe while a stream is captured, as they are not captured: Error naming `call` and
/// `what` it does where a capture that is under way forbids this thread to make them; that capture is invalid then.
void refuse_unsafe(const char* call, const char* what);

}  // namespace reprise::cuda::emulated
