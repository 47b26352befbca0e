// Names and checks of the elementwise ops.
#include "reprise/kernels/elementwise/elementwise_table.h"

#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

constexpr const char* unary_names[] = {"neg",  "abs",       "sign",    "square",      "reciprocal",
                                       "sqrt", "rsqrt",     "exp",     "log",         "sin",
                                       "cos",  "tanh",      "sigmoid", "erf",         "relu",
                                       "gelu", "gelu_tanh", "silu",    "logical_not", "is_finite"};
constexpr const char* binary_names[] = {
    "add",       "sub",  "mul",        "div",     "pow",           "maximum",     "minimum",   "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"};
static_assert(std::size(unary_names) == n_unary_ops && std::size(binary_names) == n_binary_ops);

void check_output(const char* op, const TensorView& y, DType expected) {
  check(y.dtype == expected, op, ": writes ", expected, ", the output is ", y.dtype);
}

}  // namespace

const char* name_of(UnaryOp op) {
  invariant(size_t(op) < n_unary_ops, "unary: unknown op ", int(op));
  return unary_names[size_t(op)];
}

const char* name_of(BinaryOp op) {
  invariant(size_t(op) < n_binary_ops, "binary: unknown op ", int(op));
  return binary_names[size_t(op)];
}

void check_unary(UnaryOp op, const TensorView& x, const TensorView& y, bool defined) {
  check_same_shape(name_of(op), x, y);
  check_output(name_of(op), y, writes_bool(op) ? DType::boolean : x.dtype);
  check(defined, name_of(op), ": needs a floating dtype, got ", x.dtype);
}

void check_unary_backward(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx,
                          bool defined) {
  check_same_shape(name_of(op), dy, x);
  check_same_shape(name_of(op), x, dx);
  check_same_dtype(name_of(op), dy, x);
  check_output(name_of(op), dx, x.dtype);
  check(defined, name_of(op), ": has no gradient for ", x.dtype);
}

void check_binary(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y, bool defined) {
  check_same_shape(name_of(op), a, b);
  check_same_shape(name_of(op), a, y);
  check_same_dtype(name_of(op), a, b);
  check_output(name_of(op), y, writes_bool(op) ? DType::boolean : a.dtype);
  check(defined, name_of(op), ": needs a floating dtype, got ", a.dtype);
}

void check_where(const TensorView& condition, const TensorView& a, const TensorView& b, const TensorView& y) {
  check(condition.dtype == DType::boolean, "where: the condition is ", condition.dtype, ", not bool");
  check_same_shape("where", condition, y);
  check_same_shape("where", a, y);
  check_same_shape("where", b, y);
  check_same_dtype("where", a, b);
  check_same_dtype("where", a, y);
}

}  // namespace reprise::kernels
