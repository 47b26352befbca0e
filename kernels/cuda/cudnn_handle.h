// What the files that call cuDNN share: the handle of a device and the errors. Only they include this; it
// does without cuDNN's own headers, so that it compiles anywhere.
#pragma once

#include <mutex>
#include <string>

#include "reprise/core/error.h"
#include "reprise/core/stream.h"

struct cudnnContext;

namespace reprise::kernels::vendor {

/// The handle of the stream's device, set to the stream and held by this thread until the scope ends: cuDNN
/// allows one thread at a time. It is made at the first use and lives as long as the process.
class CudnnScope {
 public:
  explicit CudnnScope(const Stream& stream);
  CudnnScope(const CudnnScope&) = delete;
  cudnnContext* handle() const { return handle_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cudnnContext* handle_ = nullptr;
};

/// What cuDNN refuses: it has no kernel for it, or takes its parameters for wrong.
struct CudnnRefusal : Error {
  using Error::Error;
};

/// CudnnRefusal if that is what the status says, else Error.
[[noreturn]] void fail_cudnn(int status, const char* call, const std::string& values);

/// Throws Error naming the call, cuDNN's word for what went wrong, and the values.
template <class Status, class... Values>
void check_cudnn(Status status, const char* call, const Values&... values) {
  if (int(status) != 0) [[unlikely]]
    fail_cudnn(int(status), call, reprise::detail::join("", values...));
}

/// Whether cuDNN said that it has nothing for a case. It says so in many ways: 3000 and what follows.
template <class Status>
bool is_unsupported(Status status) {
  return int(status) / 1000 == 3;
}

/// A descriptor of cuDNN's.
template <class Handle, const auto& create, const auto& destroy>
class CudnnDescriptor {
 public:
  CudnnDescriptor() { check_cudnn(create(&handle_), "creating a descriptor"); }
  ~CudnnDescriptor() { destroy(handle_); }
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

}  // namespace reprise::kernels::vendor
