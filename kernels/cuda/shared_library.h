// A library of the CUDA Toolkit that is opened at run time, so that programs also start where it is not installed.
#pragma once

#include <string>

namespace reprise::kernels::device {

/// It stays open as long as the process: what it registered with the driver goes at the end.
class SharedLibrary {
 public:
  /// `name`.`version` where the system looks for libraries, else in the folder of the toolkit of the build. Error with the
  /// loader's words if it is in neither.
  SharedLibrary(const std::string& name, int version);

  /// Error if the library lacks it.
  template <class Function>
  void find(const char* function, Function*& to) const {
    to = reinterpret_cast<Function*>(address_of(function));
  }
  /// Null if the library lacks it: an older one does.
  template <class Function>
  void find_if_there(const char* function, Function*& to) const {
    to = reinterpret_cast<Function*>(address_if_there(function));
  }

 private:
  void* address_of(const char* function) const;
  void* address_if_there(const char* function) const;

  std::string name_;
  void* handle_;
};

}  // namespace reprise::kernels::device
