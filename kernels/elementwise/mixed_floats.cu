// Elementwise ops of views that are each of f32 or 16 bits. One kernel for each formula: which dtypes they are it asks the views as
// it runs, so that there need not be one for each mix of them. Packs are of 4 elements, 16 bytes of f32.
#include "reprise/kernels/elementwise/mixed_floats.h"

#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/elementwise/elementwise.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

using F = CudaFormulas;

template <class Formulas, class... Views>
void map_formula(const char* name, const Stream& stream, size_t op, const TensorView& y, const Views&... x) {
  dispatch_formula<Formulas>(op, [&]<class Formula>() {
    if constexpr (mixes(Formula::op)) {
      constexpr bool is_bool = std::is_same_v<std::invoke_result_t<Formula, ForEach<float, Views>...>, bool>;
      using Y = std::conditional_t<is_bool, bool, AnyFloat>;
      map(name, stream, Pointwise<float, Formula, Y, ForEach<AnyFloat, Views>...>{}, x..., y);
    }
  });
}

struct WhereOfFloats {
  using Inputs = Types<bool, AnyFloat, AnyFloat>;
  using Outputs = Types<AnyFloat>;
  static constexpr bool uses_index = false, by_element = false;

  template <int N>
  __device__ void operator()(int64_t, const Pack<bool, N>& condition, const Pack<float, N>& a,
                             const Pack<float, N>& b, Pack<float, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = condition.at[i] ? a.at[i] : b.at[i];
  }
};

}  // namespace

void unary_of_mixed_floats(const Stream& stream, UnaryOp op, const TensorView& x, const TensorView& y) {
  map_formula<F::Unary>(name_of(op), stream, size_t(op), y, x);
}

void unary_backward_of_mixed_floats(const Stream& stream, UnaryOp op, const TensorView& dy,
                                    const TensorView& x, const TensorView& dx) {
  map_formula<F::Gradients>(name_of(op), stream, size_t(op), dx, dy, x);
}

void binary_of_mixed_floats(const Stream& stream, BinaryOp op, const TensorView& a, const TensorView& b,
                            const TensorView& y) {
  map_formula<F::Binary>(name_of(op), stream, size_t(op), y, a, b);
}

void where_of_mixed_floats(const Stream& stream, const TensorView& condition, const TensorView& a,
                           const TensorView& b, const TensorView& y) {
  map("where", stream, WhereOfFloats{}, condition, a, b, y);
}

}  // namespace reprise::kernels
