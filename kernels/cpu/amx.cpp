// The sums of `amx::Model`.
#include "reprise/kernels/cpu/amx.h"

#include <bit>
#include <cmath>

namespace reprise::kernels::amx {
namespace {

/// An exact sum of an f32 and a product of bf16 as f32, zero where it is subnormal once rounded. A double has digits
/// enough that rounding twice rounds as once.
float rounded(double x) {
  if (std::abs(x) < 0x1p-126 - 0x1p-151) return std::copysign(0.0f, float(x));
  return float(x);
}

/// A bf16 from the upper half of a word.
double value_of(uint32_t word) {
  const bool subnormal = (word & 0x7f800000u) == 0;
  return double(std::bit_cast<float>(word & (subnormal ? 0x80000000u : 0xffff0000u)));
}

}  // namespace

void Model::dot_bf16(Tile& c, const Tile& a, const Tile& b) {
  constexpr int places = row_bytes / 4;
  for (int m = 0; m < tile_rows; ++m)
    for (int n = 0; n < places; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < places; ++k) {
        even = rounded(value_of(a[m][k] << 16) * value_of(b[k][n] << 16) + double(even));
        odd = rounded(value_of(a[m][k]) * value_of(b[k][n]) + double(odd));
      }
      const double before = rounded(double(std::bit_cast<float>(c[m][n])));
      c[m][n] = std::bit_cast<uint32_t>(rounded(before + double(rounded(double(even) + double(odd)))));
    }
}

}  // namespace reprise::kernels::amx
