// Rotary positions: y = x cos + (x quarter_turn) sin. As a matrix the quarter turn is a small product of any layout and
// dtype, and the tables have cos 1 and sin 0 where nothing is to turn: no token and no channel is cut out.
#include "reprise/nn/transformers/rope.h"

#include <cmath>

#include "reprise/autograd/ops.h"

namespace reprise::nn {

Rope::Rope(const Grid& grid, int64_t prefix, int64_t head_dim, Device device) {
  check(grid.rows >= 1 && grid.columns >= 1 && prefix >= 0, "Rope: the grid must not be empty, got ",
        grid.rows, " x ", grid.columns, " patches behind ", prefix, " tokens");
  check(head_dim >= 4 && head_dim % 4 == 0, "Rope: head_dim ", head_dim, " is not a multiple of 4");
  const int64_t tokens = prefix + grid.rows * grid.columns, half = head_dim / 2;
  std::vector<float> cosines(size_t(tokens * head_dim), 1), sines(cosines.size());
  for (int64_t patch = 0; patch < grid.rows * grid.columns; ++patch)
    for (int64_t channel = 0; channel < head_dim; ++channel) {
      const int64_t place = channel < half ? patch / grid.columns : patch % grid.columns;
      const double exponent = -4.0 * double(channel % half / 2) / double(head_dim);
      const double angle = double(place) * std::pow(10000.0, exponent);
      const auto at = size_t((prefix + patch) * head_dim + channel);
      cosines[at] = float(std::cos(angle));
      sines[at] = float(std::sin(angle));
    }
  std::vector<float> turn(size_t(head_dim * head_dim));
  for (int64_t i = 0; i < head_dim; i += 2) {
    turn[size_t((i + 1) * head_dim + i)] = -1;
    turn[size_t(i * head_dim + i + 1)] = 1;
  }
  cosines_ = register_constant("cosines", Tensor::from(cosines, {tokens, 1, head_dim}, device));
  sines_ = register_constant("sines", Tensor::from(sines, {tokens, 1, head_dim}, device));
  quarter_turn_ = register_constant("quarter_turn", Tensor::from(turn, {head_dim, head_dim}, device));
}

Tensor Rope::forward(const Tensor& x) {
  check(x.rank() == 4 && x.size(1) == cosines_.size(0) && x.size(3) == cosines_.size(2),
        "Rope: tokens must be (B, ", cosines_.size(0), ", H, ", cosines_.size(2), "), got ", x.shape());
  return x * cosines_ + matmul(x, quarter_turn_) * sines_;
}

}  // namespace reprise::nn
