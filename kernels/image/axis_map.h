// Axis maps: how the numbers along one side of an image are made of those of another, as a sparse matrix in host
// memory; separable2d.h applies one to the rows and one to the columns.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::kernels {

/// Output i is the sum of weights[k] input[sources[k]] over k in [starts[i], starts[i + 1]).
struct AxisMap {
  int64_t inputs = 0;
  std::vector<int32_t> starts = {0};
  std::vector<int32_t> sources{};
  std::vector<double> weights{};

  int64_t outputs() const { return int64_t(starts.size()) - 1; }
  /// Adds `weight` times input `source` to the output that is being made.
  void add(int64_t source, double weight);
  /// The output is made; what is added now belongs to the next.
  void end_output();
  /// The map of gradients: from outputs to inputs.
  AxisMap transposed() const;
};

void for_each_attribute(const AxisMap& map, const auto& visit) {
  visit(map.inputs), visit(map.starts), visit(map.sources), visit(map.weights);
}

/// What output i of `outputs` is of `inputs`: the pixel at floor(i inputs / outputs).
AxisMap nearest_map(int64_t inputs, int64_t outputs);

/// Where the pixels of the result lie among those of the image: centres map to centres of the first and last pixel
/// (`corners`), or the edges of the image to its edges (`edges`: half-pixel centres).
enum class Align : uint8_t { edges, corners };
/// The kernel that weighs neighbours: the triangle of radius 1, or the cubic of radius 2 (Keys 1981).
enum class Kernel1d : uint8_t { linear, cubic };

/// Interpolation between the 2 or 4 nearest pixels, those beyond the edge being the last ones; cubic with a = -0.75.
AxisMap interpolation_map(int64_t inputs, int64_t outputs, Kernel1d kernel, Align align);

/// The same kernel stretched by the factor of a reduction, so that it sees each pixel; weights add up to 1. Cubic with
/// a = -0.5, as Pillow and PyTorch's antialias have it.
AxisMap antialias_map(int64_t inputs, int64_t outputs, Kernel1d kernel, Align align);

/// Means over windows that begin at i stride - padding; with `count_padding` also pixels of the padding, as zeros,
/// count, but none beyond it.
enum class CountPadding : uint8_t { no, yes };
AxisMap mean_map(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride, int64_t padding,
                 CountPadding count_padding);

/// `before` and `after` mirrored pixels on the two sides, the border itself not repeated. Both less than `inputs`.
AxisMap reflection_map(int64_t inputs, int64_t before, int64_t after);

}  // namespace reprise::kernels
