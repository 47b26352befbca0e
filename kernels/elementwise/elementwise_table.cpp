// Checks of the elementwise ops.
#include "reprise/kernels/elementwise/elementwise_table.h"

#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

void check_output(const char* op, const TensorView& y, DType expected) {
  check(y.dtype == expected, op, ": writes ", expected, ", the output is ", y.dtype);
}

void check_input(const char* op, const TensorView& x, int traits) {
  check(traits & takes_integers || is_floating(x.dtype), op, ": needs a floating dtype, got ", x.dtype);
}

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// Whether they differ, and an op that mixes floats takes them.
bool are_mixed(int traits, std::initializer_list<DType> dtypes) {
  bool differ = false, fit = traits & mixes_floats;
  for (DType dtype : dtypes) {
    differ |= dtype != *dtypes.begin();
    fit &= dtype == DType::f32 || is_half(dtype);
  }
  return differ && fit;
}

}  // namespace

void check_unary(UnaryOp op, const TensorView& x, const TensorView& y) {
  const auto& [_, name, traits] = row_of(op);
  check_same_shape(name, x, y);
  if (are_mixed(traits, {x.dtype, y.dtype})) return;
  check_output(name, y, traits & writes_bool ? DType::boolean : x.dtype);
  check_input(name, x, traits);
}

void check_unary_backward(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx) {
  const auto& [_, name, traits] = row_of(op);
  check_same_shape(name, dy, x);
  check_same_shape(name, x, dx);
  if (are_mixed(traits, {dy.dtype, x.dtype, dx.dtype})) return;
  check_same_dtype(name, dy, x);
  check_output(name, dx, x.dtype);
  check(traits & differentiable && is_floating(x.dtype), name, ": has no gradient for ", x.dtype);
}

void check_binary(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y) {
  const auto& [_, name, traits] = row_of(op);
  check_same_shape(name, a, b);
  check_same_shape(name, a, y);
  const bool writes_truth = traits & writes_bool && y.dtype == DType::boolean;
  if (are_mixed(traits, {a.dtype, b.dtype, writes_truth ? a.dtype : y.dtype})) return;
  if (op != BinaryOp::add || !adds_to_f32(a.dtype, b.dtype)) check_same_dtype(name, a, b);
  check_output(name, y, traits & writes_bool ? DType::boolean : promote(a.dtype, b.dtype));
  check_input(name, a, traits);
}

bool adds_to_f32(DType a, DType b) {
  return (a == DType::f32 && is_half(b)) || (b == DType::f32 && is_half(a));
}

void check_where(const TensorView& condition, const TensorView& a, const TensorView& b, const TensorView& y) {
  check(condition.dtype == DType::boolean, "where: the condition is ", condition.dtype, ", not bool");
  check_same_shape("where", condition, y);
  check_same_shape("where", a, y);
  check_same_shape("where", b, y);
  if (are_mixed(mixes_floats, {a.dtype, b.dtype, y.dtype})) return;
  check_same_dtype("where", a, b);
  check_same_dtype("where", a, y);
}

}  // namespace reprise::kernels
