// Tensor's operations in place that are functions of its numbers.
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

// f(x) of this tensor alone.
template <class F>
const Tensor& of_itself(const char* op, const Tensor& x, const F& f) {
  check_self(x, op);
  return by_value(op, x, TensorList{}, f);
}

// f(x, a, b) of sources that have the dtype of x: computed in f32 if that is a half type, and rounded once.
template <class F, class... Sources>
const Tensor& with_sources(const char* op, const Tensor& x, const F& f, const Sources&... sources) {
  check_self(x, op);
  for (const Tensor& source : {sources...}) check_source(source, x, op), check_dtype(x, source, op);
  return by_value(op, x, TensorList{sources...},
                  [&](const Tensor& self) { return in_f32(f, self, sources...); });
}

}  // namespace

const Tensor& Tensor::clamp_(std::optional<double> low, std::optional<double> high) const {
  return of_itself("clamp_", *this, [&](const Tensor& x) { return clamp(x, low, high); });
}
const Tensor& Tensor::relu_() const {
  return of_itself("relu_", *this, [](const Tensor& x) { return relu(x); });
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, double value) const {
  check_self(*this, "masked_fill_");
  return by_value("masked_fill_", *this, TensorList{mask},
                  [&](const Tensor& x) { return masked_fill(x, mask, value); });
}
const Tensor& Tensor::pow_(double exponent) const {
  return of_itself("pow_", *this, [&](const Tensor& x) { return pow(x, exponent); });
}
const Tensor& Tensor::abs_() const {
  return of_itself("abs_", *this, [](const Tensor& x) { return abs(x); });
}
const Tensor& Tensor::exp_() const {
  return of_itself("exp_", *this, [](const Tensor& x) { return exp(x); });
}
const Tensor& Tensor::log_() const {
  return of_itself("log_", *this, [](const Tensor& x) { return log(x); });
}
const Tensor& Tensor::neg_() const {
  return of_itself("neg_", *this, [](const Tensor& x) { return -x; });
}
const Tensor& Tensor::sigmoid_() const {
  return of_itself("sigmoid_", *this, [](const Tensor& x) { return sigmoid(x); });
}
const Tensor& Tensor::sqrt_() const {
  return of_itself("sqrt_", *this, [](const Tensor& x) { return sqrt(x); });
}
const Tensor& Tensor::square_() const {
  return of_itself("square_", *this, [](const Tensor& x) { return square(x); });
}
const Tensor& Tensor::tanh_() const {
  return of_itself("tanh_", *this, [](const Tensor& x) { return tanh(x); });
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
    return weight < 0.5 ? x + (to - x) * weight : to - (to - x) * (1 - weight);
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
