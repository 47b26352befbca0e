// Tensor's operations in place that draw random numbers.
#include <cmath>

#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/kernels/elementwise/random_fill.h"

namespace reprise {
namespace {

using namespace autograd;

enum class Law : uint8_t { uniform, normal };

// Uniform in [a, b), or normal with mean a and deviation b.
template <Law law>
struct Draw : Function<Draw<law>> {
  static constexpr const char* name = law == Law::uniform ? "uniform_" : "normal_";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  Tensor forward(const Tensor& x, const Tensor& none, Overwrite overwrite, double a, double b,
                 Generator::State draw) {
    Tensor y = overwrite.allowed ? overwrite.target(x) : raw_empty_like(x);
    write(y, none, a, b, draw);
    return y;
  }
  static void write(const Tensor& x, const Tensor&, double a, double b, Generator::State draw) {
    const auto& fill = law == Law::uniform ? kernels::fill_uniform : kernels::fill_normal;
    fill(current_stream(x.device()), x, a, b, draw.seed, draw.offset);
  }
  TensorList backward(const TensorList& dy) { return {zeros_like(dy[0]), Tensor()}; }
};

template <Law law>
const Tensor& drawn(const Tensor& x, double a, double b, Generator* generator) {
  constexpr auto op = Draw<law>::name;
  check_floating(op, x);
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

}  // namespace reprise
