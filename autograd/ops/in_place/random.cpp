// Tensor's operations in place that draw random numbers.
#include <cmath>
#include <limits>

#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/elementwise/random_fill.h"

namespace reprise {
namespace {

using namespace autograd;

enum class Law : uint8_t { uniform, normal, bernoulli };

constexpr const char* name_of(Law law) {
  return law == Law::uniform ? "uniform_" : law == Law::normal ? "normal_" : "bernoulli_";
}

// x = 1 where a number of `rand` is less than p, else 0.
void fill_bernoulli(const Stream& stream, const Tensor& x, double p, Generator::State draw) {
  auto bound = float(p);  // no f32 lies between it and p
  if (bound < p) bound = std::nextafter(bound, std::numeric_limits<float>::infinity());
  const Tensor numbers = Tensor::empty(x.shape(), DType::f32, x.device()),
               limit = Tensor::empty({}, DType::f32, x.device()),
               hits = Tensor::empty(x.shape(), DType::boolean, x.device());
  kernels::fill_uniform(stream, numbers, 0, 1, draw.seed, draw.offset);
  kernels::fill(stream, limit, bound);
  kernels::binary(stream, kernels::BinaryOp::less, numbers, expand(limit.view(), x.shape()), hits);
  kernels::copy(stream, hits, x);
}

// Uniform in [a, b), or normal with mean a and deviation b, or 1 with probability a.
template <Law law>
struct Draw : Function<Draw<law>> {
  static constexpr const char* name = name_of(law);
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& none, Overwrite overwrite, double a, double b,
                 Generator::State draw) {
    Tensor y = overwrite.allowed ? overwrite.target(x) : raw_empty_like(x);
    write(y, none, a, b, draw);
    return y;
  }
  static void write(const Tensor& x, const Tensor&, double a, double b, Generator::State draw) {
    const Stream stream = current_stream(x.device());
    if constexpr (law == Law::bernoulli) {
      fill_bernoulli(stream, x, a, draw);
    } else {
      const auto& fill = law == Law::uniform ? kernels::fill_uniform : kernels::fill_normal;
      fill(stream, x, a, b, draw.seed, draw.offset);
    }
  }
  TensorList backward(const TensorList& dy) { return {zeros_like(dy[0]), Tensor()}; }
};

template <Law law>
const Tensor& drawn(const Tensor& x, double a, double b, Generator* generator) {
  constexpr auto op = Draw<law>::name;
  if (law != Law::bernoulli) check_floating(op, x);
  check_change(op, x, is_recorded(x, {}));  // before anything is drawn
  return change<Draw<law>>(op, x, {}, a, b, random_draw(generator));
}

}  // namespace

const Tensor& Tensor::uniform_(double low, double high, Generator* generator) const {
  check_self(*this, "uniform_");
  check(low <= high && std::isfinite(high - low), "uniform_: no interval [", low, ", ", high, ")");
  return drawn<Law::uniform>(*this, low, high, generator);
}
const Tensor& Tensor::normal_(double mean, double stddev, Generator* generator) const {
  check_self(*this, "normal_");
  check(stddev >= 0 && std::isfinite(stddev), "normal_: stddev is ", stddev);
  return drawn<Law::normal>(*this, mean, stddev, generator);
}
const Tensor& Tensor::bernoulli_(double probability, Generator* generator) const {
  check_self(*this, "bernoulli_");
  check(probability >= 0 && probability <= 1, "bernoulli_: a probability of ", probability);
  return drawn<Law::bernoulli>(*this, probability, 0, generator);
}

}  // namespace reprise
