// Elementwise ops on CUDA (elementwise/elementwise.cuh is the kernel). The floating types below f64 have a
// kernel for each op; f64 and the integers, which no training loop is bound by, have one for all ops and pick
// the formula as they run.
#include "reprise/kernels/elementwise/elementwise.h"

#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/elementwise/elementwise.cuh"
#include "reprise/kernels/elementwise/mixed_floats.h"

namespace reprise::kernels {
namespace {

using namespace device;

using F = CudaFormulas;

/// Formula number `op`; 1 and 0 where it gives bool.
template <class C, class Formulas>
struct AnyFormula {
  size_t op;

  template <class... X>
  __device__ C operator()(X... x) const {
    C y{};
    dispatch_formula<Formulas>(op, [&]<class Formula>() {
      if constexpr (std::invocable<Formula, X...>) y = C(Formula{}(x...));
    });
    return y;
  }
};

/// y = formula `op` of x..., views of one dtype. One kernel for each formula.
template <class Formulas, class T, class... Views>
void map_each(const char* name, const Stream& stream, size_t op, const TensorView& y, const Views&... x) {
  dispatch_formula<Formulas>(op, [&]<class Formula>() {
    if constexpr (std::invocable<Formula, ForEach<float, Views>...>) {
      constexpr bool is_bool = std::is_same_v<std::invoke_result_t<Formula, ForEach<float, Views>...>, bool>;
      using Y = std::conditional_t<is_bool, bool, T>;
      map(name, stream, Pointwise<float, Formula, Y, ForEach<T, Views>...>{}, x..., y);
    }
  });
}

/// The same with one kernel for all formulas.
template <class Formulas, class C, class T, class... Views>
void map_any(const char* name, const Stream& stream, size_t op, const TensorView& y, const Views&... x) {
  const AnyFormula<C, Formulas> formula{op};
  using Formula = AnyFormula<C, Formulas>;
  if (y.dtype == DType::boolean)
    map(name, stream, Pointwise<C, Formula, bool, ForEach<T, Views>...>{formula}, x..., y);
  else
    map(name, stream, Pointwise<C, Formula, T, ForEach<T, Views>...>{formula}, x..., y);
}

template <class Formulas, class... Views>
void map_formula(const char* name, const Stream& stream, size_t op, DType dtype, const TensorView& y,
                 const Views&... x) {
  dispatch_all(dtype, [&]<class T>() {
    using C = ComputeType<T>;
    if constexpr (std::is_same_v<C, float>)
      map_each<Formulas, Element<T>>(name, stream, op, y, x...);
    else
      map_any<Formulas, C, Element<T>>(name, stream, op, y, x...);
  });
}

void unary_cuda(const Stream& stream, UnaryOp op, const TensorView& x, const TensorView& y) {
  check_unary(op, x, y);
  if (mixes(op) && y.dtype != x.dtype) return unary_of_mixed_floats(stream, op, x, y);
  map_formula<F::Unary>(name_of(op), stream, size_t(op), x.dtype, y, x);
}

void unary_backward_cuda(const Stream& stream, UnaryOp op, const TensorView& dy, const TensorView& x,
                         const TensorView& dx) {
  check_unary_backward(op, dy, x, dx);
  if (dy.dtype != x.dtype || dx.dtype != x.dtype)
    return unary_backward_of_mixed_floats(stream, op, dy, x, dx);
  map_formula<F::Gradients>(name_of(op), stream, size_t(op), x.dtype, dx, dy, x);
}

/// a + b, of which one is f32 and the other of 16 bits; a sum does not depend on the order.
void add_to_f32(const Stream& stream, const TensorView& a, const TensorView& b, const TensorView& y) {
  if (b.dtype == DType::f32) return add_to_f32(stream, b, a, y);
  auto run = [&]<class T>(T) { map("add", stream, Pointwise<float, F::Add, float, float, T>{}, a, b, y); };
  b.dtype == DType::bf16 ? run(__nv_bfloat16()) : run(__half());
}

void binary_cuda(const Stream& stream, BinaryOp op, const TensorView& a, const TensorView& b,
                 const TensorView& y) {
  check_binary(op, a, b, y);
  if (op == BinaryOp::add && adds_to_f32(a.dtype, b.dtype)) return add_to_f32(stream, a, b, y);
  if (mixes(op) && (b.dtype != a.dtype || (y.dtype != a.dtype && y.dtype != DType::boolean)))
    return binary_of_mixed_floats(stream, op, a, b, y);
  map_formula<F::Binary>(name_of(op), stream, size_t(op), a.dtype, y, a, b);
}

template <class C>
struct Affine {
  C scale, shift;
  __device__ C operator()(C x) const { return F::Add{}(F::Mul{}(x, scale), shift); }
};

void affine_cuda(const Stream& stream, const TensorView& x, double scale, double shift, const TensorView& y) {
  check_same_shape("affine", x, y);
  check_same_dtype("affine", x, y);
  dispatch_all(x.dtype, [&]<class T>() {
    using C = ComputeType<T>;
    Affine<C> f = {scalar_operand<C>("affine", scale, x.dtype), scalar_operand<C>("affine", shift, x.dtype)};
    map("affine", stream, Pointwise<C, Affine<C>, Element<T>, Element<T>>{f}, x, y);
  });
}

template <class C>
struct AddScaled {
  C alpha;
  __device__ C operator()(C x, C y) const { return F::Add{}(y, F::Mul{}(x, alpha)); }
};

void add_scaled_cuda(const Stream& stream, const TensorView& x, double alpha, const TensorView& y) {
  check_same_shape("add_scaled", x, y);
  check_same_dtype("add_scaled", x, y);
  dispatch_all(x.dtype, [&]<class T>() {
    using C = ComputeType<T>;
    using E = Element<T>;
    AddScaled<C> f = {scalar_operand<C>("add_scaled", alpha, x.dtype)};
    map("add_scaled", stream, Pointwise<C, AddScaled<C>, E, E, E>{f}, x, y, y);
  });
}

/// Moves elements as they are: U is an unsigned integer of their size.
template <class U>
struct Where {
  using Inputs = Types<bool, U, U>;
  using Outputs = Types<U>;
  static constexpr bool uses_index = false, by_element = false;

  template <int N>
  __device__ void operator()(int64_t, const Pack<bool, N>& condition, const Pack<U, N>& a,
                             const Pack<U, N>& b, Pack<U, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = condition.at[i] ? a.at[i] : b.at[i];
  }
};

void where_cuda(const Stream& stream, const TensorView& condition, const TensorView& a, const TensorView& b,
                const TensorView& y) {
  check_where(condition, a, b, y);
  if (a.dtype != y.dtype || b.dtype != y.dtype) return where_of_mixed_floats(stream, condition, a, b, y);
  dispatch_bits(y.dtype, [&]<class U>() { map("where", stream, Where<U>{}, condition, a, b, y); });
}

const OnCuda unary_on_cuda{unary, unary_cuda};
const OnCuda unary_backward_on_cuda{unary_backward, unary_backward_cuda};
const OnCuda binary_on_cuda{binary, binary_cuda};
const OnCuda affine_on_cuda{affine, affine_cuda};
const OnCuda add_scaled_on_cuda{add_scaled, add_scaled_cuda};
const OnCuda where_on_cuda{where, where_cuda};

}  // namespace
}  // namespace reprise::kernels
