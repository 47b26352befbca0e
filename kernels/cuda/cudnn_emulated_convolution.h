// The fixed functions of convolution in the emulator's model of cuDNN. Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <string_view>

namespace reprise::kernels::emulated {

/// Null if it is none of them.
void* find_convolution_function(std::string_view name);

}  // namespace reprise::kernels::emulated
