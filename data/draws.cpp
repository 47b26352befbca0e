// The distributions of Draws, in f64.
#include "reprise/data/draws.h"

#include <cmath>
#include <numbers>

namespace reprise::data {

double Draws::normal() {
  const auto words = block();
  const double radius = double((uint64_t(words[1]) << 32 | words[0]) >> 11) * 0x1p-53;
  const double turn = double((uint64_t(words[3]) << 32 | words[2]) >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log1p(-radius)) * std::cos(2 * std::numbers::pi * turn);
}

double Draws::gamma(double shape) {
  // A gamma of shape + 1, times U^(1 / shape), is one of shape: the method itself needs shape >= 1.
  const double boost = shape < 1 ? std::pow(1 - uniform(), 1 / shape) : 1;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(), v = std::pow(1 + c * x, 3);
    const double u = 1 - uniform();  // in (0, 1]
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return boost * d * v;
  }
}

double Draws::beta(double a, double b) {
  const double x = gamma(a), y = gamma(b);
  // Both are 0 only for shapes so small that a beta is a coin.
  return x + y > 0 ? x / (x + y) : double(chance(a / (a + b)));
}

}  // namespace reprise::data
