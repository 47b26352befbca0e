// Rotary positions of a sequence: the angles that `rp::rotary` turns by, in tables that blocks share.
#pragma once

#include "reprise/nn/module.h"
#include "reprise/nn/transformers/rope_scaling.h"

namespace reprise::nn {

/// cos and sin of the angles of some positions, as `rp::rotary` takes them.
struct RotaryAngles {
  Tensor cosines;  ///< (..., head_dim / 2)
  Tensor sines;    ///< of the same shape
};

/// Error, which begins with `op`, unless head_dim is even and at most 65,536, positions are from 1 to 2^24, and rope_theta is above
/// 0, of yarn above 1; and as of `check_rope_scaling`.
void check_rotary(const char* op, int64_t positions, int64_t head_dim, double rope_theta,
                  const RopeScaling& scaling);

/// cos and sin of the angle p rope_theta^(-2 i / head_dim) of each position p (Su et al. 2021), or as they are scaled. Neither trained
/// nor saved.
class RotaryTables : public Module {
 public:
  /// For heads of `head_dim` channels; the angles are computed in f64, the tables are f32. Error as of `check_rotary`.
  RotaryTables(int64_t positions, int64_t head_dim, double rope_theta = 10000,
               const RopeScaling& scaling = {}, Device device = {});
  /// The angles of the positions from 0 to count - 1, (count, head_dim / 2) each. Error if the tables have fewer.
  RotaryAngles first(int64_t count) const;
  /// The angles of positions i64 (B, T): (B, 1, T, head_dim / 2) each, for heads (B, H, T, head_dim).
  RotaryAngles at(const Tensor& positions) const;

  /// @{
  /// (positions, head_dim / 2).
  Tensor cosines, sines;
  /// @}
};

}  // namespace reprise::nn
