// Libraries by dlopen.
#include "reprise/kernels/cuda/shared_library.h"

#include <dlfcn.h>

#include "reprise/core/error.h"

namespace reprise::kernels::device {

SharedLibrary::SharedLibrary(const std::string& name, int version)
    : name_(name + "." + std::to_string(version)), handle_(dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* words = dlerror();
  const std::string reason = words ? words : name_ + " cannot be opened";
  for (const std::string folder :
       {REPRISE_CUDA_LIBRARIES})  // of the build's toolkit, empty without one: CMake says
    if (!handle_ && !folder.empty()) handle_ = dlopen((folder + "/" + name_).c_str(), RTLD_NOW | RTLD_LOCAL);
  check(handle_ != nullptr, reason);
}

void* SharedLibrary::address_of(const char* function) const {
  void* address = address_if_there(function);
  check(address != nullptr, name_, ": has no ", function);
  return address;
}

void* SharedLibrary::address_if_there(const char* function) const { return dlsym(handle_, function); }

}  // namespace reprise::kernels::device
