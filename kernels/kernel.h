// Kernel: one operation with an implementation for each kind of device, called like a function.
//
//   foo.h    extern Kernel<void(const TensorView& x, const TensorView& y)> foo;
//   foo.cpp  decltype(foo) foo{"foo", foo_cpu};
//   foo.cu   const OnCuda foo_on_cuda{foo, foo_cuda};
//
//   foo(stream, x, y);   // runs where the stream is
//
// The arguments of a kernel of many tensors are a struct, and a call names them: foo(stream, {.x = x, .y =
// y}).
#pragma once

#include "reprise/core/error.h"
#include "reprise/core/stream.h"
#include "reprise/core/view.h"
#include "reprise/kernels/for_each_view.h"

namespace reprise::kernels {

template <class Signature>
class Kernel;

/// One operation on views, with an implementation for each kind of device.
template <class... Args>
class Kernel<void(Args...)> {
 public:
  using Function = void (*)(const Stream&, Args...);  ///< an implementation: starts the work on the stream

  /// `name` is for messages, and lives as long as the program.
  constexpr Kernel(const char* name, Function cpu) : name_(name), cpu_(cpu) {}
  Kernel(const Kernel&) = delete;

  /// Runs the implementation of the stream's device. Error if there is none, or if a view lies on another device.
  void operator()(const Stream& stream, Args... args) const {
    Function function = stream.device().type == DeviceType::cpu ? cpu_ : cuda_;
    check(function != nullptr, name_, ": no kernel for device ", stream.device());
    auto check_place = [&](const TensorView& view) {
      check(view.device == stream.device() || !view, name_, ": runs on ", stream.device(),
            ", but a tensor of shape ", view.shape, " is on ", view.device);
    };
    (for_each_view(args, check_place), ...);
    function(stream, args...);
  }

 private:
  template <class Signature>
  friend struct OnCuda;
  const char* name_;
  Function cpu_;
  Function cuda_ = nullptr;
};

/// Gives a kernel its CUDA implementation; one static object beside it in the `.cu` file.
template <class Signature>
struct OnCuda {
  /// From now on `kernel` runs `function` on CUDA devices.
  OnCuda(Kernel<Signature>& kernel, typename Kernel<Signature>::Function function) {
    kernel.cuda_ = function;
  }
};

}  // namespace reprise::kernels
