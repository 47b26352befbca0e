#include "reprise/nn/transformers/rotary_tables.h"

#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"

namespace reprise::nn {
namespace {

constexpr int64_t most_positions = int64_t(1) << 24;
constexpr int64_t widest_head = 1 << 16;

}  // namespace

void check_rotary(const char* op, int64_t positions, int64_t head_dim, double rope_theta,
                  const RopeScaling& scaling) {
  check(head_dim >= 2 && head_dim % 2 == 0 && head_dim <= widest_head, op, ": a head_dim of ", head_dim,
        ", wanted an even number of at most ", widest_head);
  check(positions >= 1 && positions <= most_positions, op, ": a context of ", positions,
        " tokens, wanted from 1 to ", most_positions);
  check(rope_theta > 0, op, ": rope_theta must be above 0, got ", rope_theta);
  check_rope_scaling(op, scaling);
  check(scaling.kind != RopeScaling::Kind::yarn || rope_theta > 1, op,
        ": rope_scaling: yarn needs a rope_theta above 1, got ", rope_theta);
}

RotaryTables::RotaryTables(int64_t positions, int64_t head_dim, double rope_theta, const RopeScaling& scaling,
                           Device device) {
  check_rotary("RotaryTables", positions, head_dim, rope_theta, scaling);
  const std::vector<double> turns = turns_of(head_dim, rope_theta, scaling);
  const double scale = cosine_scale(scaling);
  const Shape shape{positions, int64_t(turns.size())};
  const Tensor of_cos = Tensor::empty(shape), of_sin = Tensor::empty(shape);
  auto *cos_of = of_cos.data<float>(), *sin_of = of_sin.data<float>();
  for (int64_t p = 0; p < positions && !NoCompute::is_on(); ++p)
    for (const double turn : turns) {
      *cos_of++ = float(scale * std::cos(double(p) * turn));
      *sin_of++ = float(scale * std::sin(double(p) * turn));
    }
  cosines = register_constant("cosines", of_cos.to(device));
  sines = register_constant("sines", of_sin.to(device));
}

RotaryAngles RotaryTables::first(int64_t count) const {
  check(count <= cosines.size(0), "RotaryTables: ", count, " tokens, the tables hold ", cosines.size(0));
  return {slice(cosines, 0, 0, count), slice(sines, 0, 0, count)};
}

RotaryAngles RotaryTables::at(const Tensor& positions) const {
  check(positions.rank() == 2, "RotaryTables: positions must be (B, T), got ", positions.shape());
  return {unsqueeze(embedding(cosines, positions), 1), unsqueeze(embedding(sines, positions), 1)};
}

}  // namespace reprise::nn
