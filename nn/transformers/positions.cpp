// Positions of tokens on a grid.
#include "reprise/nn/transformers/positions.h"

#include <cmath>

#include "reprise/autograd/ops.h"

namespace reprise::nn {

Tensor sincos_positions(const Grid& grid, int64_t width, Device device) {
  check(grid.rows >= 1 && grid.columns >= 1, "sincos_positions: the grid must not be empty, got ", grid.rows,
        " x ", grid.columns);
  check(width >= 4 && width % 4 == 0, "sincos_positions: width ", width, " is not a multiple of 4");
  const int64_t quarter = width / 4;
  std::vector<float> values;
  values.reserve(size_t(grid.rows * grid.columns * width));
  for (int64_t row = 0; row < grid.rows; ++row)
    for (int64_t column = 0; column < grid.columns; ++column)
      for (int64_t i = 0; i < width; ++i) {
        double omega = std::pow(10000.0, -double(i % quarter) / double(quarter));
        double angle = double(i < 2 * quarter ? column : row) * omega;
        values.push_back(float(i / quarter % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
  return Tensor::from(values, {grid.rows * grid.columns, width}, device);
}

Tensor resample_positions(const Tensor& positions, const Grid& grid, int64_t prefix) {
  check(positions.rank() == 3 && positions.size(0) == 1 && prefix >= 0 && positions.size(1) > prefix,
        "resample_positions: positions must be (1, ", prefix, " + patches, width), got ", positions.shape());
  const int64_t patches = positions.size(1) - prefix, width = positions.size(2);
  const auto side = int64_t(std::llround(std::sqrt(double(patches))));
  check(side * side == patches, "resample_positions: ", positions.shape(), " with ", prefix,
        " tokens before the patches: ", patches, " patches are no square");
  Tensor x = positions.slice(1, prefix, positions.size(1)).to(DType::f32);
  x = x.reshape({1, side, side, width}).permute({0, 3, 1, 2});  // (1, width, side, side)
  x = interpolate(x.contiguous(), {grid.rows, grid.columns},
                  {.mode = Interpolation::bicubic, .antialias = true});
  x = x.permute({0, 2, 3, 1}).reshape({1, grid.rows * grid.columns, width}).to(positions.dtype());
  return prefix == 0 ? x : concat({positions.slice(1, 0, prefix), x}, 1);
}

}  // namespace reprise::nn
