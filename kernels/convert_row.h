// Conversions of numbers that lie side by side.
#pragma once

#include <cstdint>

#include "reprise/kernels/convert.h"

namespace reprise::kernels {

/// to[i] = convert<To>(from[i]) for i < n.
template <class To, class From>
void convert_row(const From* from, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

// Between f32 and the half types by vectors: the same bits, but that signalling NaNs of f16 may become quiet.
template <>
void convert_row(const BFloat16* from, float* to, int64_t n);
template <>
void convert_row(const Float16* from, float* to, int64_t n);
template <>
void convert_row(const float* from, BFloat16* to, int64_t n);
template <>
void convert_row(const float* from, Float16* to, int64_t n);

}  // namespace reprise::kernels
