#include "reprise/autograd/ops/elementwise/powers.h"

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/elementwise/wide_pairs.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

Tensor like(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }

// base^exponent of integers, which wrap, by squares: a product for each bit of the largest exponent. To a negative power 1 and -1 are
// what they are to a positive one, and all others 0, as in PyTorch.
Tensor power_of_integers(const Tensor& base, const Tensor& given_exponent) {
  const Tensor exponent = given_exponent.to(DType::i64), size = abs(exponent);
  Tensor power = ones(broadcast_shapes(base.shape(), exponent.shape(), "pow"), base.dtype(), base.device());
  if (power.numel() == 0) return power;
  // The size of -2^63 is -2^63, whose lower bits are 0.
  const auto most = uint64_t(max(size).to_vector<int64_t>()[0]) & ~(uint64_t(1) << 63);
  Tensor square = base;
  for (int bit = 0; most >> bit > 0; ++bit) {
    const double value = double(uint64_t(1) << bit);
    const Tensor above = bit < 62 ? remainder(size, 2 * value) : size;
    power = where(above >= value, power * square, power);
    square = square * square;
  }
  return where(logical_and(exponent < 0, logical_and(base != 1, base != -1)), like(base, 0), power);
}

struct PowOfTensors : autograd::Function<PowOfTensors> {
  static constexpr const char* name = "pow";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: the kernel reads 16 bits and computes in f32
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  Shape of_base, of_exponent;

  Tensor forward(const Tensor& base, const Tensor& exponent) {
    autograd::check_device(name, base, exponent);
    if (autograd::holds_whole_numbers(base.dtype())) return power_of_integers(base, exponent);
    autograd::check_floating(name, base);
    of_base = base.shape(), of_exponent = exponent.shape();
    save(base, exponent);
    const Shape shape = broadcast_shapes(of_base, of_exponent, name);
    const DType dtype = under_autocast() ? autograd::statistics_dtype(base) : base.dtype();
    Tensor y = Tensor::empty(shape, dtype, base.device());
    kernels::binary(current_stream(base.device()), kernels::BinaryOp::pow, expand(base.view(), shape),
                    expand(exponent.view(), shape), y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    const Tensor base = autograd::converted(saved(0), dy[0].dtype()),
                 exponent = autograd::converted(saved(1), dy[0].dtype());
    Tensor of_b, of_e;
    if (needs_grad(0)) {
      auto wide = [](const Tensor& d, const Tensor& b, const Tensor& e) {
        return where(equal(e, like(e, 0)), like(d, 0), d * (e * pow(b, e - 1.0)));
      };
      of_b = sum_to(autograd::in_f32(wide, dy[0], base, exponent), of_base);
    }
    if (needs_grad(1)) {
      auto wide = [](const Tensor& d, const Tensor& b, const Tensor& e) {
        const Tensor flat = logical_and(equal(b, like(b, 0)), greater_equal(e, like(e, 0)));
        return where(flat, like(d, 0), d * (pow(b, e) * log(b)));
      };
      of_e = sum_to(autograd::in_f32(wide, dy[0], base, exponent), of_exponent);
    }
    return {of_b, of_e};
  }
};

// x (..., n) over its last dimension, which is not empty.
Tensor product_of_last(Tensor x) {
  for (int64_t n = x.size(-1); n > 1; n = x.size(-1)) {
    const int64_t half = n / 2;
    const Tensor pairs = autograd::product(slice(x, -1, 0, half), slice(x, -1, half, 2 * half));
    x = n % 2 ? concat({pairs, slice(x, -1, n - 1, n)}, -1) : pairs;
  }
  return squeeze(x, -1);
}

}  // namespace

Tensor pow(const Tensor& base, const Tensor& exponent) {
  autograd::check_given("pow", base, exponent);
  const DType dtype = promote(base.dtype(), exponent.dtype());
  if (amp::autocast_dtype(base.device()) && autograd::meet_in_f32(base.dtype(), exponent.dtype()))
    return PowOfTensors::apply(base, exponent);
  return PowOfTensors::apply(cast(base, dtype), cast(exponent, dtype));
}

Tensor pow(double base, const Tensor& exponent) {
  autograd::check_given("pow", exponent);
  return pow(like(exponent, autograd::element("pow", base, exponent.dtype())), exponent);
}

Tensor prod(const Tensor& given, const Dims& dims, bool keep_dims) {
  autograd::check_given("prod", given);
  const unsigned listed = dims.size() == 0 ? ~0u : dims_mask(dims, given.rank(), "prod");
  auto wide = [&](const Tensor& x) {
    Dims order;
    Shape kept, with_ones;
    int64_t count = 1;
    for (int d = 0; d < x.rank(); ++d) {
      const bool goes = listed >> d & 1;
      with_ones.push_back(goes ? 1 : x.shape()[d]);
      if (goes) {
        count *= x.shape()[d];
      } else {
        order.push_back(d);
        kept.push_back(x.shape()[d]);
      }
    }
    for (int d = 0; d < x.rank(); ++d)
      if (listed >> d & 1) order.push_back(d);
    Shape rows = kept;
    rows.push_back(count);
    const Tensor y =
        count == 0 ? ones(kept, x.dtype(), x.device()) : product_of_last(reshape(permute(x, order), rows));
    return keep_dims ? reshape(y, with_ones) : y;
  };
  if (!is_floating(given.dtype())) return wide(cast(given, DType::i64));
  if (!amp::autocast_dtype(given.device())) return autograd::in_f32(wide, given);
  return cast(wide(given), autograd::statistics_dtype(given));  // that of a single number is the number
}

}  // namespace reprise
