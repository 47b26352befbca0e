// What the models of a warp's instructions share: private to them.
#pragma once

#include <bit>

#include "reprise/simt/ptx.h"

namespace reprise::simt::ptx::detail {

template <class Record>
Record& record_of(void** lanes, int lane) {
  return *static_cast<Record*>(lanes[lane]);
}

/// ldmatrix and mma.sync are `.aligned`: all 32 lanes, none of them exited.
template <class Record>
void check_full_warp(void** lanes, uint32_t arrived) {
  if (arrived == ~0u) return;
  for (int lane = 0; lane < 32; ++lane)
    if (arrived >> lane & 1)
      fail(record_of<Record>(lanes, lane).where, "the warp is not complete: lanes ", std::hex, arrived);
}

template <class T>
float to_float(uint32_t bits);
template <>
inline float to_float<__nv_bfloat16>(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}
/// 2^112 moves the exponent from the bias of f16 to that of f32, for subnormals as well.
template <>
inline float to_float<__half>(uint32_t bits) {
  const bool finite = (bits & 0x7c00) != 0x7c00;
  const float magnitude = finite ? std::bit_cast<float>((bits & 0x7fff) << 13) * 0x1p112f
                                 : std::bit_cast<float>((bits & 0x7fff) << 13 | 0x7f800000);
  return bits & 0x8000 ? -magnitude : magnitude;
}
template <>
inline float to_float<Tf32>(uint32_t bits) {
  return std::bit_cast<float>(bits & 0xffffe000);
}

}  // namespace reprise::simt::ptx::detail
