// Rows of any floating dtype as vectors of the type they are computed in, for the bodies of `simd::run`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "reprise/core/dtype.h"
#include "reprise/kernels/convert.h"
#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::simd {

/// Lanes of T's accumulator in a vector that holds W floats.
template <class T, int W>
inline constexpr int lanes_of = W* int(sizeof(float)) / int(sizeof(Accumulator<T>));

/// L numbers of bf16 as f32.
template <int L>
[[gnu::always_inline]] inline Vector<float, L> widened(Vector<uint16_t, L> bits) {
  return Vector<float, L>(__builtin_convertvector(bits, Vector<uint32_t, L>) << 16);
}

/// The bits of BFloat16(value) for each lane, in the lower half of a word.
template <int L>
[[gnu::always_inline]] inline Vector<uint32_t, L> bf16_words(Vector<float, L> value) {
  using Words = Vector<uint32_t, L>;
  const Words u = Words(value), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  const Words is_nan = Words(value != value);
  return (rounded & ~is_nan) | (quiet & is_nan);
}

/// The same in 16 bits.
template <int L>
[[gnu::always_inline]] inline Vector<uint16_t, L> rounded_to_bf16(Vector<float, L> value) {
  return __builtin_convertvector(bf16_words<L>(value), Vector<uint16_t, L>);
}

/// L numbers of f16 as f32, in a body for vectors of W >= L floats. Signalling NaNs become quiet ones where the CPU converts.
template <int L, int W = L>
[[gnu::always_inline]] inline Vector<float, L> load_f16(const Float16* from) {
  using Bits = Vector<uint16_t, L>;
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
  if constexpr (W >= 8) {  // AVX2 or AVX-512: both come with F16C
    Vector<float, L> value;
    asm("vcvtph2ps %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const detail::Unaligned<Bits>*>(from)));
    return value;
  }
#endif
  return kernels::detail::f32_from_f16<Vector<float, L>>(
      __builtin_convertvector(load<Bits>(from), Vector<uint32_t, L>));
}

/// The bits of Float16(value) for each lane.
template <int L>
[[gnu::always_inline]] inline Vector<uint16_t, L> rounded_to_f16(Vector<float, L> value) {
  return __builtin_convertvector(kernels::detail::f16_from_f32<Vector<uint32_t, L>>(value),
                                 Vector<uint16_t, L>);
}

/// The next L values of a row that has `count` left, as a vector of C; lanes behind the end hold `rest`.
template <class C, int L, class T>
[[gnu::always_inline]] inline Vector<C, L> load_row(const T* from, int64_t count, C rest = 0) {
  if constexpr (std::is_same_v<C, T>)
    if (count >= L) return load<Vector<C, L>>(from);
  if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<C, float>)
    if (count >= L) return widened<L>(load<Vector<uint16_t, L>>(from));
  if constexpr (std::is_same_v<T, Float16> && std::is_same_v<C, float>)
    if (count >= L) return load_f16<L>(from);
  C lanes[size_t(L)];
  if (count >= L) {
    for (int i = 0; i < L; ++i) lanes[i] = C(from[i]);
  } else {
    for (int i = 0; i < L; ++i) lanes[i] = i < count ? C(from[i]) : rest;
  }
  return load<Vector<C, L>>(lanes);
}

/// Stores the lanes that the row has room for; whole vectors past the caches, if so asked.
template <class C, int L, class T>
[[gnu::always_inline]] inline void store_row(T* to, Vector<C, L> value, int64_t count,
                                             bool past_caches = false) {
  auto store_whole = [&](auto v) { past_caches ? store_past_caches(to, v) : store(to, v); };
  if constexpr (std::is_same_v<C, T>)
    if (count >= L) return store_whole(value);
  if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<C, float>)
    if (count >= L) return store_whole(rounded_to_bf16<L>(value));
  if constexpr (std::is_same_v<T, Float16> && std::is_same_v<C, float>)
    if (count >= L) return store_whole(rounded_to_f16<L>(value));
  C lanes[size_t(L)];
  store(lanes, value);
  if (count >= L) {
    for (int i = 0; i < L; ++i) to[i] = T(lanes[i]);
  } else {
    for (int i = 0; i < count; ++i) to[i] = T(lanes[i]);
  }
}

}  // namespace reprise::kernels::simd
