// A kernel that does nothing and is never launched: where its image runs, those of the others do.
#include "reprise/core/cuda/kernel_image.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

__global__ void image_probe_kernel() {}

const cuda::ImageProbe probe{reinterpret_cast<const void*>(&image_probe_kernel)};

}  // namespace
}  // namespace reprise::kernels
