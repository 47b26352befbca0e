// SwiGLU on CUDA. Forward reads 2 elements and writes 1, backward reads 3 and writes 2; some 20 and 25
// instructions each, about what the memory of an H200 leaves time for in bf16.
#include "reprise/kernels/elementwise/swiglu.h"

#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/elementwise/elementwise.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

template <class T, class C>
struct Backward {
  using Inputs = Types<T, T, T>;
  using Outputs = Types<T, T>;
  static constexpr bool uses_index = false, by_element = false;

  template <int N>
  __device__ void operator()(int64_t, const Pack<T, N>& dy, const Pack<T, N>& gate, const Pack<T, N>& up,
                             Pack<T, N>& dgate, Pack<T, N>& dup) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto [dg, du] =
          CudaFormulas::SwiGlu{}.gradients(to<C>(dy.at[i]), to<C>(gate.at[i]), to<C>(up.at[i]));
      dgate.at[i] = from<T>(dg);
      dup.at[i] = from<T>(du);
    }
  }
};

void check_like(const char* op, const TensorView& x, std::initializer_list<const TensorView*> others) {
  for (const TensorView* other : others) {
    check_same_shape(op, x, *other);
    check_same_dtype(op, x, *other);
  }
}

void swiglu_cuda(const Stream& stream, const TensorView& gate, const TensorView& up, const TensorView& y) {
  check_like("swiglu", gate, {&up, &y});
  dispatch_floating(gate.dtype, "swiglu", [&]<class T>() {
    using C = Accumulator<T>;
    using E = Element<T>;
    map("swiglu", stream, Pointwise<C, CudaFormulas::SwiGlu, E, E, E>{}, gate, up, y);
  });
}

void swiglu_backward_cuda(const Stream& stream, const SwigluBackwardArguments& v) {
  check_like("swiglu_backward", v.gate, {&v.dy, &v.up, &v.dgate, &v.dup});
  dispatch_floating(v.gate.dtype, "swiglu_backward", [&]<class T>() {
    map("swiglu_backward", stream, Backward<Element<T>, Accumulator<T>>{}, v.dy, v.gate, v.up, v.dgate,
        v.dup);
  });
}

const OnCuda swiglu_on_cuda{swiglu, swiglu_cuda};
const OnCuda swiglu_backward_on_cuda{swiglu_backward, swiglu_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
