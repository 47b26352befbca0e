// Kernel: one operation with an implementation for each kind of device, called like a function.
//
//   foo.h    extern Kernel<void(const TensorView& x, const TensorView& y)> foo;
//   foo.cpp  Kernel<void(const TensorView& x, const TensorView& y)> foo{"foo", foo_cpu};
//   foo.cu   const OnCuda foo_on_cuda{foo, foo_cuda};
//
//   foo(stream, x, y);   // runs where the stream is
#pragma once

#include "reprise/core/error.h"
#include "reprise/core/stream.h"
#include "reprise/core/view.h"

namespace reprise::kernels {

template <class Signature>
class Kernel;

template <class... Args>
class Kernel<void(Args...)> {
 public:
  using Function = void (*)(const Stream&, Args...);

  constexpr Kernel(const char* name, Function cpu) : name_(name), cpu_(cpu) {}
  Kernel(const Kernel&) = delete;

  void operator()(const Stream& stream, Args... args) const {
    Function function = stream.device().type == DeviceType::cpu ? cpu_ : cuda_;
    check(function != nullptr, name_, ": no kernel for device ", stream.device());
    (check_place(stream, args), ...);
    function(stream, args...);
  }

 private:
  void check_place(const Stream& stream, const TensorView& view) const {
    check(view.device == stream.device() || !view, name_, ": runs on ", stream.device(),
          ", but a tensor of shape ", view.shape, " is on ", view.device);
  }
  template <class Option>
  void check_place(const Stream&, const Option&) const {}

  template <class Signature>
  friend struct OnCuda;
  const char* name_;
  Function cpu_;
  Function cuda_ = nullptr;
};

/// Gives a kernel its CUDA implementation; one static object beside it in the `.cu` file.
template <class Signature>
struct OnCuda {
  OnCuda(Kernel<Signature>& kernel, typename Kernel<Signature>::Function function) {
    kernel.cuda_ = function;
  }
};

}  // namespace reprise::kernels
