// Rotary positions. The tables have cos 1 and sin 0 where nothing is to turn: no token is cut out.
#include "reprise/nn/transformers/rope.h"

#include <cmath>

#include "reprise/autograd/ops/attention/rotary.h"

namespace reprise::nn {

Rope::Rope(const Grid& grid, int64_t prefix, int64_t head_dim, Device device) {
  check(grid.rows >= 1 && grid.columns >= 1 && prefix >= 0, "Rope: the grid must not be empty, got ",
        grid.rows, " x ", grid.columns, " patches behind ", prefix, " tokens");
  check(head_dim >= 4 && head_dim % 4 == 0, "Rope: head_dim ", head_dim, " is not a multiple of 4");
  const int64_t tokens = prefix + grid.rows * grid.columns, half = head_dim / 2;
  std::vector<float> cosines(size_t(tokens * half), 1), sines(cosines.size());
  for (int64_t patch = 0; patch < grid.rows * grid.columns; ++patch)
    for (int64_t pair = 0; pair < half; ++pair) {
      const int64_t place = pair < half / 2 ? patch / grid.columns : patch % grid.columns;
      const double exponent = -4.0 * double(pair % (half / 2)) / double(head_dim);
      const double angle = double(place) * std::pow(10000.0, exponent);
      const auto at = size_t((prefix + patch) * half + pair);
      cosines[at] = float(std::cos(angle));
      sines[at] = float(std::sin(angle));
    }
  cosines_ = register_constant("cosines", Tensor::from(cosines, {tokens, 1, half}, device));
  sines_ = register_constant("sines", Tensor::from(sines, {tokens, 1, half}, device));
}

Tensor Rope::forward(const Tensor& x, const ResultOptions& result) const {
  if (!is_changed()) return turned(x, result);
  const Tensor y = (*this)(x);
  return cast(y, result.out.value_or(y.dtype()));
}

Tensor Rope::turned(const Tensor& x, const ResultOptions& result) const {
  const int64_t tokens = cosines_.size(0), head_dim = 2 * cosines_.size(2);
  check(x.rank() == 4 && x.size(1) == tokens && x.size(3) == head_dim, "Rope: tokens must be (B, ", tokens,
        ", H, ", head_dim, "), got ", x.shape());
  return rotary(x, cosines_, sines_, {.pairs = RotaryPairs::adjacent, .out = result.out});
}

}  // namespace reprise::nn
