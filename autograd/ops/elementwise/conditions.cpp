#include "reprise/autograd/ops/elementwise/conditions.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/along_dim.h"

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

Tensor any(const Tensor& x, const Dims& dims, bool keep_dims) {
  return sum(truth("any", x), dims, keep_dims) != 0;
}
Tensor all(const Tensor& x, const Dims& dims, bool keep_dims) {
  return sum(other(truth("all", x)), dims, keep_dims) == 0;
}

Tensor nonzero(const Tensor& x) {
  const std::vector<uint8_t> hits = truth("nonzero", x).to(DType::u8).to_vector<uint8_t>();
  std::vector<int64_t> places;
  int64_t count = 0;
  for (size_t i = 0; i < hits.size(); ++i) {
    if (!hits[i]) continue;
    Dims place = x.shape();
    auto rest = int64_t(i);
    for (int d = x.rank() - 1; d >= 0; --d) {
      place[d] = rest % x.size(d);
      rest /= x.size(d);
    }
    places.insert(places.end(), place.begin(), place.end());
    ++count;
  }
  return Tensor::from(places, {count, x.rank()}, x.device());
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  constexpr auto op = "masked_select";
  autograd::check_given(op, x);
  check(broadcast_shapes(x.shape(), mask_of(op, mask).shape(), op) == x.shape(), op, ": the mask ",
        mask.shape(), " does not broadcast to ", x.shape());
  const Tensor places = nonzero(reshape(expand(mask, x.shape()), {-1}));
  return index_select(reshape(x, {-1}), 0, squeeze(places, 1));
}

Tensor index(const Tensor& x, const Tensor& places) {
  autograd::check_given("index", x, places);
  const bool masks = places.dtype() == DType::boolean;
  check(masks || places.dtype() == DType::i64, "index: places must be i64 or bool, got ", places.dtype());
  const int taken = masks ? places.rank() : 1;
  check(taken >= 1 && taken <= x.rank(), "index: places of shape ", places.shape(), " in a tensor of shape ",
        x.shape());
  int64_t count = 1;
  for (int d = 0; d < taken; ++d) {
    check(!masks || places.shape()[d] == x.shape()[d], "index: a mask of shape ", places.shape(),
          " in a tensor of shape ", x.shape());
    count *= x.shape()[d];
  }
  const Tensor rows =
      masks ? squeeze(nonzero(reshape(places, {count})), 1) : reshape(places, {places.numel()});
  Shape flat{count}, result = masks ? Shape{rows.numel()} : places.shape();
  for (int d = taken; d < x.rank(); ++d) {
    flat.push_back(x.shape()[d]);
    result.push_back(x.shape()[d]);
  }
  return reshape(index_select(reshape(x, flat), 0, rows), result);
}

}  // namespace reprise
