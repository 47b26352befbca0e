// Which GPUs the program holds kernels for. A GPU's capability alone does not say it: code for 9.0a runs on no 10.0, and PTX needs
// a driver that compiles it.
#pragma once

#include <string>

namespace reprise::cuda {

/// Whether the program holds an image of its kernels that runs on the device. The first question for a device makes its context.
bool has_kernel_image(int device);

/// What the kernels were compiled for: "80, 90a, PTX of 80".
std::string built_architectures();

/// The kernel whose image `has_kernel_image` asks for: one static object, beside a kernel that is compiled for every
/// architecture of the build.
struct ImageProbe {
  explicit ImageProbe(const void* kernel);
};
const void* probe_kernel();  ///< the one that was named; null in a program that links no kernels

}  // namespace reprise::cuda
