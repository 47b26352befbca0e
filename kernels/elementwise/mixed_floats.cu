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
    if constexpr (mixes(Formula::op))
      map(name, stream, Pointwise<float, Formula, AnyFloat, ForEach<AnyFloat, Views>...>{}, x..., y);
  });
}

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

}  // namespace reprise::kernels
