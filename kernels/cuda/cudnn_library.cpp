// cuDNN by dlopen.
#include "reprise/kernels/cuda/cudnn_library.h"

#include <cudnn.h>

#include <cstdio>
#include <optional>

#include "reprise/core/error.h"
#include "reprise/kernels/cuda/shared_library.h"

namespace reprise::kernels::vendor {
namespace {

const std::optional<device::SharedLibrary>& library() {
  static const auto& opened = *new std::optional<device::SharedLibrary>([] {
    std::optional<device::SharedLibrary> found;
    try {
      found.emplace("libcudnn.so", CUDNN_MAJOR);
    } catch (const Error& error) {
      std::fprintf(stderr, "reprise: %s; convolutions and attention run on kernels of our own\n",
                   error.what());
    }
    return found;
  }());
  return opened;
}

}  // namespace

bool has_cudnn() { return library().has_value(); }

void* cudnn_function(const char* name) {
  check(has_cudnn(), name, ": cuDNN is not there");
  void (*at)() = nullptr;
  library()->find(name, at);
  return reinterpret_cast<void*>(at);
}

}  // namespace reprise::kernels::vendor
