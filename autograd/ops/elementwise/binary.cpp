// Elementwise functions of two tensors, with NumPy broadcasting; comparisons; where.
#include <optional>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/into.h"
#include "reprise/autograd/ops/elementwise/run_binary.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise_table.h"

namespace reprise {
namespace {

using autograd::run_binary;
using kernels::BinaryOp;
using kernels::UnaryOp;

// The gradients of a and b before they are summed to their shapes.
template <BinaryOp op>
struct Derivative;

template <>
struct Derivative<BinaryOp::add> {
  static constexpr bool reads_inputs = false;
  static Tensor of_a(const Tensor& dy, const Tensor&, const Tensor&) { return dy; }
  static Tensor of_b(const Tensor& dy, const Tensor&, const Tensor&) { return dy; }
};
template <>
struct Derivative<BinaryOp::sub> {
  static constexpr bool reads_inputs = false;
  static Tensor of_a(const Tensor& dy, const Tensor&, const Tensor&) { return dy; }
  static Tensor of_b(const Tensor& dy, const Tensor&, const Tensor&) { return -dy; }
};
template <>
struct Derivative<BinaryOp::mul> {
  static constexpr bool reads_inputs = true;
  static Tensor of_a(const Tensor& dy, const Tensor&, const Tensor& b) { return dy * b; }
  static Tensor of_b(const Tensor& dy, const Tensor& a, const Tensor&) { return dy * a; }
};
template <>
struct Derivative<BinaryOp::div> {
  static constexpr bool reads_inputs = true;
  static Tensor of_a(const Tensor& dy, const Tensor&, const Tensor& b) { return dy / b; }
  // Never b^2, which overflows or vanishes long before the quotient does.
  static Tensor of_b(const Tensor& dy, const Tensor& a, const Tensor& b) {
    auto wide = [](const Tensor& d, const Tensor& x, const Tensor& y) { return -d * ((x / y) / y); };
    const bool reads_both = a.dtype() != b.dtype() && autograd::meet_in_f32(a.dtype(), b.dtype());
    return reads_both && !autograd::grad_mode_enabled() ? wide(dy, a, b) : autograd::in_f32(wide, dy, a, b);
  }
};

// The share of dy that one side gets when the larger (or smaller) of two wins and equals split. NaN loses to
// nothing: both sides get dy then, as in PyTorch.
Tensor winner_share(const Tensor& dy, const Tensor& loses, const Tensor& ties) {
  Tensor zero = scalar(0, dy.dtype(), dy.device());
  return where(loses, zero, where(ties, dy * 0.5, dy));
}
template <>
struct Derivative<BinaryOp::maximum> {
  static constexpr bool reads_inputs = true;
  static Tensor of_a(const Tensor& dy, const Tensor& a, const Tensor& b) {
    return winner_share(dy, less(a, b), equal(a, b));
  }
  static Tensor of_b(const Tensor& dy, const Tensor& a, const Tensor& b) {
    return winner_share(dy, greater(a, b), equal(a, b));
  }
};
template <>
struct Derivative<BinaryOp::minimum> {
  static constexpr bool reads_inputs = true;
  static Tensor of_a(const Tensor& dy, const Tensor& a, const Tensor& b) {
    return winner_share(dy, greater(a, b), equal(a, b));
  }
  static Tensor of_b(const Tensor& dy, const Tensor& a, const Tensor& b) {
    return winner_share(dy, less(a, b), equal(a, b));
  }
};

template <BinaryOp op>
struct Binary : autograd::Function<Binary<op>> {
  using D = Derivative<op>;
  static constexpr const char* name = kernels::name_of(op);
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  // Dtypes that differ are met in `promoted`, before autocast sees them, or are read by the kernel as they are.
  static constexpr uint32_t autocast_keeps = 0b11;
  Shape shape_a, shape_b;
  DType of_a = DType::f32, of_b = DType::f32;

  Tensor forward(const Tensor& a, const Tensor& b) {
    shape_a = a.shape(), of_a = a.dtype();
    shape_b = b.shape(), of_b = b.dtype();
    if constexpr (D::reads_inputs) this->save(a, b);
    return run_binary(op, a, b, promote(of_a, of_b), name);
  }

  TensorList backward(const TensorList& dy) {
    Tensor a, b;
    if constexpr (D::reads_inputs) {
      a = this->saved(0);
      b = this->saved(1);
    }
    Tensor da, db;
    if (this->needs_grad(0)) da = rounded(0, sum_to(D::of_a(dy[0], a, b), shape_a), of_a);
    if (this->needs_grad(1)) db = rounded(1, sum_to(D::of_b(dy[0], a, b), shape_b), of_b);
    return {da, db};
  }

 private:
  Tensor rounded(int i, const Tensor& d, DType of_input) const {
    return autograd::converted(d, this->gradient_dtype(i, of_input));
  }
};

// Whether the kernel gives f32 of a and b as they lie.
template <BinaryOp op>
bool reads_both(const Tensor& a, const Tensor& b) {
  if (op == BinaryOp::add) return kernels::adds_to_f32(a.dtype(), b.dtype());
  return kernels::mixes(op) && a.dtype() != b.dtype() && autograd::meet_in_f32(a.dtype(), b.dtype());
}

// Mixed dtypes meet in the wider one; where the kernel does not read both, by casts that are part of the graph.
template <BinaryOp op>
Tensor promoted(const Tensor& a, const Tensor& b) {
  autograd::check_given(kernels::name_of(op), a, b);
  if (reads_both<op>(a, b)) return Binary<op>::apply(a, b);
  DType dtype = promote(a.dtype(), b.dtype());
  return Binary<op>::apply(cast(a, dtype), cast(b, dtype));
}

// No gradient flows through it; it is an operation for those who observe them.
template <BinaryOp op>
struct Comparison : autograd::Function<Comparison<op>> {
  static constexpr const char* name = kernels::name_of(op);
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr uint32_t autocast_keeps = 0b11;  // `compare` has brought both to what the kernel reads
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();

  Tensor forward(const Tensor& a, const Tensor& b) { return run_binary(op, a, b, DType::boolean, name); }
  TensorList backward(const TensorList&) { return {Tensor(), Tensor()}; }
};

template <BinaryOp op>
Tensor compare(const Tensor& a, const Tensor& b) {
  autograd::check_given(kernels::name_of(op), a, b);
  NoGrad guard;
  if (reads_both<op>(a, b)) return Comparison<op>::apply(a, b);
  DType dtype = promote(a.dtype(), b.dtype());
  return Comparison<op>::apply(cast(a, dtype), cast(b, dtype));
}

struct Affine : autograd::Function<Affine> {
  static constexpr const char* name = "affine";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  double scale_ = 1;

  Tensor forward(const Tensor& x, double scale, double shift) {
    scale_ = scale;
    Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::affine(current_stream(x.device()), x, scale, shift, y);
    return y;
  }
  TensorList backward(const TensorList& dy) { return {scale_ == 1 ? dy[0] : dy[0] * scale_}; }
};

double operand(const char* op, const Tensor& x, double value) {
  return autograd::whole_number(op, value, x.dtype());
}

// The powers that have an operation of their own: quicker, and sqrt(-inf) is NaN, as it is in PyTorch's pow.
std::optional<UnaryOp> own_operation(double exponent) {
  if (exponent == 2) return UnaryOp::square;
  if (exponent == 0.5) return UnaryOp::sqrt;
  if (exponent == -0.5) return UnaryOp::rsqrt;
  if (exponent == -1) return UnaryOp::reciprocal;
  return {};
}

// x^exponent of integers, which wrap, by squares.
Tensor power_of_integers(const char* name, const Tensor& x, double exponent) {
  autograd::whole_number(name, exponent, x.dtype());
  check(exponent >= 0, name, ": ", x.dtype(), " to the negative power ", exponent,
        "; cast it to a floating dtype first");
  auto left = uint64_t(exponent);
  Tensor power = ones(x.shape(), x.dtype(), x.device());
  for (Tensor square = x; left > 0; left /= 2) {
    if (left % 2) power = run_binary(BinaryOp::mul, power, square, x.dtype(), name);
    if (left > 1) square = run_binary(BinaryOp::mul, square, square, x.dtype(), name);
  }
  return power;
}

struct Pow : autograd::Function<Pow> {
  static constexpr const char* name = "pow";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: the kernel reads 16 bits and computes in f32
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  double exponent_ = 1;

  Tensor forward(const Tensor& x, double exponent) {
    if (autograd::holds_whole_numbers(x.dtype())) return power_of_integers(name, x, exponent);
    autograd::check_floating(name, x);
    exponent_ = exponent;
    if (exponent != 0) save(x);
    const bool widens = under_autocast() && autograd::is_half(x.dtype());
    return power_of(x, exponent, widens ? DType::f32 : x.dtype());
  }
  TensorList backward(const TensorList& dy) {
    if (exponent_ == 0) return {zeros(dy[0].shape(), dy[0].dtype(), dy[0].device())};
    auto wide = [&](const Tensor& d, const Tensor& x) {
      return d * (exponent_ == 2 ? x : pow(x, exponent_ - 1)) * exponent_;
    };
    const Tensor x = saved(0);
    if (x.dtype() == dy[0].dtype() || autograd::grad_mode_enabled())
      return {autograd::in_f32(wide, dy[0], x)};
    // The same in f32, of 16 bits that are read where they lie.
    if (exponent_ == 2) return {run_binary(BinaryOp::mul, dy[0], x, dy[0].dtype(), name) * exponent_};
    return {dy[0] * power_of(x, exponent_ - 1, dy[0].dtype()) * exponent_};
  }

 private:
  static Tensor power_of(const Tensor& x, double exponent, DType dtype) {
    Tensor y = Tensor::empty(x.shape(), dtype, x.device());
    autograd::pow_into(x, exponent, y);
    return y;
  }
};

struct Where : autograd::Function<Where> {
  static constexpr const char* name = "where";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr uint32_t autocast_keeps = 0b110;  // a and b: the kernel reads f32 and 16 bits
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  Shape shape_a, shape_b;
  DType of_a = DType::f32, of_b = DType::f32;

  Tensor forward(const Tensor& condition, const Tensor& a, const Tensor& b) {
    check(condition.dtype() == DType::boolean, "where: condition must be bool, got ", condition.dtype());
    autograd::check_device(name, a, b);
    autograd::check_device(name, a, condition);
    shape_a = a.shape();
    shape_b = b.shape();
    save(condition);
    Shape shape = broadcast_shapes(condition.shape(), broadcast_shapes(shape_a, shape_b, name), name);
    of_a = a.dtype(), of_b = b.dtype();
    check(of_a == of_b || (under_autocast() && autograd::meet_in_f32(of_a, of_b)), "where: a is ", of_a,
          ", b is ", of_b);
    Tensor y = Tensor::empty(shape, result_dtype(a, b), a.device());
    kernels::where(current_stream(a.device()), expand(condition.view(), shape), expand(a.view(), shape),
                   expand(b.view(), shape), y);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    Tensor condition = saved(0), zero = scalar(0, dy[0].dtype(), dy[0].device());
    auto rounded = [&](int i, const Tensor& d, DType of_input) {
      return autograd::converted(d, gradient_dtype(i, of_input));
    };
    Tensor da, db;
    if (needs_grad(1)) da = rounded(1, sum_to(where(condition, dy[0], zero), shape_a), of_a);
    if (needs_grad(2)) db = rounded(2, sum_to(where(condition, zero, dy[0]), shape_b), of_b);
    return {Tensor(), da, db};
  }

 private:
  // A number, a tensor without dimensions, does not widen one that has some.
  static DType result_dtype(const Tensor& a, const Tensor& b) {
    if (a.rank() == 0 && b.rank() > 0) return b.dtype();
    if (b.rank() == 0 && a.rank() > 0) return a.dtype();
    return promote(a.dtype(), b.dtype());
  }
};

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) { return promoted<BinaryOp::add>(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return promoted<BinaryOp::sub>(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return promoted<BinaryOp::mul>(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) {
  autograd::check_given("div", a, b);
  const bool whole = !is_floating(a.dtype()) && !is_floating(b.dtype());
  return whole ? autograd::with_fractions(a) / autograd::with_fractions(b) : promoted<BinaryOp::div>(a, b);
}
Tensor maximum(const Tensor& a, const Tensor& b) { return promoted<BinaryOp::maximum>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return promoted<BinaryOp::minimum>(a, b); }

Tensor operator+(const Tensor& a, double b) { return Affine::apply(a, 1.0, operand("add", a, b)); }
Tensor operator-(const Tensor& a, double b) { return Affine::apply(a, 1.0, -operand("sub", a, b)); }
Tensor operator*(const Tensor& a, double b) {
  return Affine::apply(a, operand("mul", a, b), autograd::nothing);
}
Tensor operator/(const Tensor& a, double b) {
  autograd::check_given("div", a);
  return Affine::apply(autograd::with_fractions(a), 1.0 / b, autograd::nothing);
}
Tensor operator+(double a, const Tensor& b) { return b + a; }
Tensor operator-(double a, const Tensor& b) { return Affine::apply(b, -1.0, operand("sub", b, a)); }
Tensor operator*(double a, const Tensor& b) { return b * a; }
Tensor operator/(double a, const Tensor& b) {
  autograd::check_given("div", b);
  return reciprocal(b) * a;
}
Tensor pow(const Tensor& x, double exponent) { return Pow::apply(x, exponent); }
Tensor autograd::run_binary(BinaryOp op, const Tensor& a, const Tensor& b, DType result, const char* name) {
  check_device(name, a, b);
  Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  Tensor y = Tensor::empty(shape, result, a.device());
  kernels::binary(current_stream(a.device()), op, expand(a.view(), shape), expand(b.view(), shape), y);
  return y;
}
void autograd::pow_into(const Tensor& x, double exponent, const Tensor& y) {
  const Stream& stream = current_stream(x.device());
  if (auto op = own_operation(exponent)) return kernels::unary(stream, *op, x, y);
  // In a half type the exponent would be another number.
  const Tensor power = scalar(exponent, is_half(x.dtype()) ? DType::f32 : x.dtype(), x.device());
  kernels::binary(stream, BinaryOp::pow, x, expand(power.view(), x.shape()), y);
}
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return Where::apply(condition, a, b);
}

Tensor equal(const Tensor& a, const Tensor& b) { return compare<BinaryOp::equal>(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare<BinaryOp::not_equal>(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return compare<BinaryOp::less>(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare<BinaryOp::less_equal>(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare<BinaryOp::greater>(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compare<BinaryOp::greater_equal>(a, b); }

}  // namespace reprise
