#include "reprise/autograd/ops/tensor/random.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"

namespace reprise {
namespace {

void check_range(int64_t low, int64_t high) {
  constexpr int64_t most = int64_t(1) << 32;
  check(low < high && low >= -most && high <= most, "randint: needs low < high within 2^32 of 0, got ", low,
        " and ", high);
}

// The largest number up to which a floating dtype has all whole ones.
double last_whole(DType dtype) {
  return dtype == DType::f64 ? 0x1p53 : dtype == DType::f32 ? 0x1p24 : dtype == DType::f16 ? 0x1p11 : 0x1p8;
}

}  // namespace

Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device, Generator* generator) {
  check_range(low, high);
  // 53 bits: of 2^33 numbers none is likelier than another by more than one part in 2^20.
  const Tensor places = rand(shape, DType::f64, device, generator) * double(high - low);
  return cast(floor(places), DType::i64) + double(low);
}

Tensor randint(int64_t high, const Shape& shape, Device device, Generator* generator) {
  return randint(0, high, shape, device, generator);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device,
               Generator* generator) {
  check_range(low, high);
  for (int64_t end : {low, high - 1}) {
    autograd::element("randint", double(end), dtype);
    check(!is_floating(dtype) || std::abs(double(end)) <= last_whole(dtype), "randint: ", dtype,
          " does not have all whole numbers up to ", end);
  }
  return cast(randint(low, high, shape, device, generator), dtype);
}
Tensor randint(int64_t high, const Shape& shape, DType dtype, Device device, Generator* generator) {
  return randint(0, high, shape, dtype, device, generator);
}

Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Generator* generator) {
  autograd::check_given("randint_like", x);
  return randint(low, high, x.shape(), x.dtype(), x.device(), generator);
}
Tensor randint_like(const Tensor& x, int64_t high, Generator* generator) {
  return randint_like(x, 0, high, generator);
}

Tensor randperm(int64_t count, Device device, Generator* generator) {
  check(count >= 0, "randperm: count must be at least 0, got ", count);
  return argsort(rand({count}, DType::f64, device, generator), 0);
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  autograd::check_given("bernoulli", p);
  autograd::check_floating("bernoulli", p);
  NoGrad guard;
  return cast(less(rand(p.shape(), DType::f32, p.device(), generator), p), p.dtype());
}

Tensor multinomial(const Tensor& weights, int64_t count, const MultinomialOptions& options) {
  autograd::check_given("multinomial", weights);
  autograd::check_floating("multinomial", weights);
  check(weights.rank() >= 1, "multinomial: weights must be (..., C), got a number");
  check(count >= 1, "multinomial: count must be at least 1, got ", count);
  NoGrad guard;
  const Tensor w = cast(weights.detach(), DType::f64);
  check(any(logical_not(w >= 0.0)).item() == 0 && any(w == INFINITY).item() == 0,
        "multinomial: weights must be finite and at least 0");
  const double needed = options.replacement ? 1 : double(count);
  check(any(less(sum(cast(w > 0.0, DType::f64), {-1}), scalar(needed, DType::f64, w.device()))).item() == 0,
        "multinomial: every row needs ", needed, " positive weights");
  auto gumbel = [&](const Shape& shape) {
    // Finite: what has no weight, at -inf, stays below whatever has some.
    return -log(-log(clamp(rand(shape, DType::f64, w.device(), options.generator), 0x1p-64, 1)));
  };
  if (!options.replacement) return topk(log(w) + gumbel(w.shape()), count).indices;
  Shape shape = w.shape();
  shape[w.rank() - 1] = count;
  shape.push_back(w.size(-1));
  return argmax(log(unsqueeze(w, -2)) + gumbel(shape), -1);
}

}  // namespace reprise
