// Positions of tokens on a grid.
#include "reprise/nn/positions.h"

#include <cmath>

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

}  // namespace reprise::nn
