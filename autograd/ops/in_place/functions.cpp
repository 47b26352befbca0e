// Tensor's operations in place that are functions of its numbers. More of them: pointwise.cpp and operands.cpp.
#include <cmath>

#include "reprise/autograd/ops/elementwise/into.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using namespace autograd;
using kernels::UnaryOp;

// f(x, a, b) of sources that fit beside x: computed in the widest of their dtypes, f32 for half types, and rounded once.
template <class F, class... Sources>
const Tensor& with_sources(const char* op, const Tensor& x, const F& f, const Sources&... sources) {
  check_self(x, op);
  for (const Tensor& source : {sources...}) check_source(source, x, op), check_meets(op, x, source);
  return by_value(op, x, TensorList{sources...}, [&](const Tensor& self) {
    const DType meets = common_dtype(self, sources...);
    return f(cast(self, meets), cast(sources, meets)...);
  });
}

}  // namespace

const Tensor& Tensor::clamp_(std::optional<double> low, std::optional<double> high) const {
  check_self(*this, "clamp_");
  return by_writing(
      "clamp_", *this, TensorList{}, [&](const Tensor& x) { return clamp(x, low, high); },
      [&](const Tensor& x) { clamp_into(x, low, high, x); });
}
const Tensor& Tensor::relu_() const {
  return of_itself("relu_", *this, UnaryOp::relu, [](const Tensor& x) { return relu(x); });
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, double value) const {
  check_self(*this, "masked_fill_");
  auto filled = [&](const Tensor& x) { return masked_fill(x, mask, value); };
  auto fill = [&](const Tensor& x) {
    const Tensor number = scalar(value, x.dtype(), x.device()), where = apart_from(x, mask);
    auto whole = [&](const Tensor& part) { return reprise::expand(part.view(), x.shape()); };
    kernels::where(current_stream(x.device()), whole(where), whole(number), x, x);
  };
  const bool is_mask = mask.defined() && mask.dtype() == DType::boolean && mask.device() == device();
  return is_mask ? by_writing("masked_fill_", *this, TensorList{mask}, filled, fill)
                 : by_value("masked_fill_", *this, TensorList{mask}, filled);
}
const Tensor& Tensor::pow_(double exponent) const {
  check_self(*this, "pow_");
  auto power = [&](const Tensor& x) { return pow(x, exponent); };
  if (!is_floating(dtype())) return by_value("pow_", *this, TensorList{}, power);
  return by_writing("pow_", *this, TensorList{}, power, [&](const Tensor& x) { pow_into(x, exponent, x); });
}
const Tensor& Tensor::abs_() const {
  return of_itself("abs_", *this, UnaryOp::abs, [](const Tensor& x) { return abs(x); });
}
const Tensor& Tensor::exp_() const {
  return of_itself("exp_", *this, UnaryOp::exp, [](const Tensor& x) { return exp(x); });
}
const Tensor& Tensor::log_() const {
  return of_itself("log_", *this, UnaryOp::log, [](const Tensor& x) { return log(x); });
}
const Tensor& Tensor::neg_() const {
  return of_itself("neg_", *this, UnaryOp::neg, [](const Tensor& x) { return -x; });
}
const Tensor& Tensor::sigmoid_() const {
  return of_itself("sigmoid_", *this, UnaryOp::sigmoid, [](const Tensor& x) { return sigmoid(x); });
}
const Tensor& Tensor::sqrt_() const {
  return of_itself("sqrt_", *this, UnaryOp::sqrt, [](const Tensor& x) { return sqrt(x); });
}
const Tensor& Tensor::square_() const {
  return of_itself("square_", *this, UnaryOp::square, [](const Tensor& x) { return square(x); });
}
const Tensor& Tensor::tanh_() const {
  return of_itself("tanh_", *this, UnaryOp::tanh, [](const Tensor& x) { return tanh(x); });
}
const Tensor& Tensor::tril_(int64_t diagonal) const {
  return of_itself("tril_", *this, [&](const Tensor& x) { return tril(x, diagonal); });
}
const Tensor& Tensor::triu_(int64_t diagonal) const {
  return of_itself("triu_", *this, [&](const Tensor& x) { return triu(x, diagonal); });
}

const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  check_self(*this, "lerp_");
  check_floating("lerp_", *this);
  // From the nearer end, as PyTorch: a weight of 1 gives it exactly.
  auto between = [&](const Tensor& x, const Tensor& to) {
    return std::abs(weight) < 0.5 ? x + (to - x) * weight : to - (to - x) * (1 - weight);
  };
  return with_sources("lerp_", *this, between, end);
}

const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double value) const {
  check_self(*this, "addcmul_");
  whole_number("addcmul_", value, dtype());
  auto sum = [&](const Tensor& x, const Tensor& y, const Tensor& z) { return x + y * z * value; };
  return with_sources("addcmul_", *this, sum, a, b);
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double value) const {
  check_self(*this, "addcdiv_");
  check_floating("addcdiv_", *this);
  auto sum = [&](const Tensor& x, const Tensor& y, const Tensor& z) { return x + y / z * value; };
  return with_sources("addcdiv_", *this, sum, a, b);
}

}  // namespace reprise
