#include "reprise/autograd/ops/elementwise/conditions.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Tensor constant(const Tensor& x, bool value) { return full(x.shape(), value, DType::boolean, x.device()); }

// x `compare` number. Where x is of integers it is compared with `whole`, which lies on the same side of all of them; a
// fraction there is equal to none.
template <class Compare>
Tensor compare_number(const char* op, const Tensor& x, double number, double whole, Compare compare) {
  autograd::check_given(op, x);
  if (is_floating(x.dtype())) return compare(x, scalar(number, x.dtype(), x.device()));
  const bool is_integer = whole == std::nearbyint(whole) && whole >= -0x1p63 && whole < 0x1p63;
  if (is_integer) return compare(x, scalar(whole, DType::i64, x.device()));
  // NaN, a fraction that none is equal to, or beyond all of them: what holds for 0 holds for each.
  return constant(x, bool(compare(scalar(0, DType::f64), scalar(number, DType::f64))));
}

Tensor truth(const char* op, const Tensor& x) {
  autograd::check_given(op, x);
  return x.dtype() == DType::boolean ? x : not_equal(x, scalar(0, x.dtype(), x.device()));
}

Tensor mask_of(const char* op, const Tensor& x) {
  autograd::check_given(op, x);
  check(x.dtype() == DType::boolean, op, ": needs bool, got ", x.dtype(),
        "; logical_and, logical_or, logical_xor and logical_not take numbers");
  return x;
}

Tensor truth_value(bool value, const Tensor& like) { return scalar(value, DType::boolean, like.device()); }

// Of masks.
Tensor both(const Tensor& a, const Tensor& b) { return where(a, b, truth_value(false, a)); }
Tensor either(const Tensor& a, const Tensor& b) { return where(a, truth_value(true, a), b); }
Tensor other(const Tensor& x) { return equal(x, truth_value(false, x)); }

}  // namespace

Tensor operator==(const Tensor& a, const Tensor& b) { return equal(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }

Tensor operator==(const Tensor& a, double b) { return compare_number("equal", a, b, b, equal); }
Tensor operator!=(const Tensor& a, double b) { return compare_number("not_equal", a, b, b, not_equal); }
Tensor operator<(const Tensor& a, double b) { return compare_number("less", a, b, std::ceil(b), less); }
Tensor operator<=(const Tensor& a, double b) {
  return compare_number("less_equal", a, b, std::floor(b), less_equal);
}
Tensor operator>(const Tensor& a, double b) {
  return compare_number("greater", a, b, std::floor(b), greater);
}
Tensor operator>=(const Tensor& a, double b) {
  return compare_number("greater_equal", a, b, std::ceil(b), greater_equal);
}
Tensor operator==(double a, const Tensor& b) { return b == a; }
Tensor operator!=(double a, const Tensor& b) { return b != a; }
Tensor operator<(double a, const Tensor& b) { return b > a; }
Tensor operator<=(double a, const Tensor& b) { return b >= a; }
Tensor operator>(double a, const Tensor& b) { return b < a; }
Tensor operator>=(double a, const Tensor& b) { return b <= a; }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return both(truth("logical_and", a), truth("logical_and", b));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return either(truth("logical_or", a), truth("logical_or", b));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return not_equal(truth("logical_xor", a), truth("logical_xor", b));
}
Tensor logical_not(const Tensor& x) { return other(truth("logical_not", x)); }

Tensor operator&(const Tensor& a, const Tensor& b) { return both(mask_of("&", a), mask_of("&", b)); }
Tensor operator|(const Tensor& a, const Tensor& b) { return either(mask_of("|", a), mask_of("|", b)); }
Tensor operator^(const Tensor& a, const Tensor& b) { return not_equal(mask_of("^", a), mask_of("^", b)); }
Tensor operator~(const Tensor& x) { return other(mask_of("~", x)); }

Tensor isnan(const Tensor& x) {
  autograd::check_given("isnan", x);
  return not_equal(x, x);
}
Tensor isinf(const Tensor& x) {
  autograd::check_given("isinf", x);
  NoGrad guard;
  return is_floating(x.dtype()) ? abs(x) == inf : constant(x, false);
}
Tensor isfinite(const Tensor& x) {
  autograd::check_given("isfinite", x);
  NoGrad guard;
  return is_floating(x.dtype()) ? abs(x) < inf : constant(x, true);
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  constexpr auto op = "isclose";
  autograd::check_given(op, a, b);
  check(options.rtol >= 0 && options.atol >= 0, op, ": tolerances must be at least 0, got rtol ",
        options.rtol, " and atol ", options.atol);
  NoGrad guard;
  auto wide = [](const Tensor& t) {
    return is_floating(t.dtype()) ? autograd::widened(t) : t.to(DType::f64);
  };
  const Tensor x = wide(a), y = wide(b), apart = abs(x - y);
  // An infinite number is close to itself alone.
  Tensor close = (x == y) | (isfinite(apart) & (apart <= abs(y) * options.rtol + options.atol));
  return options.equal_nan ? close | (isnan(x) & isnan(y)) : close;
}
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  return all(isclose(a, b, options)).item() != 0;
}

Tensor any(const Tensor& x, const Dims& dims, bool keep_dims) {
  return sum(truth("any", x), dims, keep_dims) != 0;
}
Tensor all(const Tensor& x, const Dims& dims, bool keep_dims) {
  return sum(other(truth("all", x)), dims, keep_dims) == 0;
}

}  // namespace reprise
