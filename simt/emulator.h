// CUDA's vocabulary on the CPU, for kernels compiled by a plain C++ compiler: include simt.h, which includes
// this. One fiber runs each CUDA thread; simt/emulator/ has the parts, docs/emulator.md what they model.
#pragma once

#include "reprise/simt/emulator/atomics.h"
#include "reprise/simt/emulator/barriers.h"
#include "reprise/simt/emulator/builtins.h"
#include "reprise/simt/emulator/math.h"
#include "reprise/simt/emulator/memory.h"
#include "reprise/simt/emulator/options.h"
#include "reprise/simt/emulator/runtime.h"
#include "reprise/simt/emulator/shared_memory.h"
#include "reprise/simt/emulator/warp.h"
#include "reprise/simt/launch_emulated.h"

// NVIDIA's headers make these empty, which would give each thread its own "shared" array, and lack the other.
#undef __shared__
#define __shared__ static_assert(false, "declare shared memory by REPRISE_SHARED");
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif
