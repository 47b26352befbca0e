// The instruction of AVX512-BF16 that multiplies pairs of bf16, and the same in plain C++ for every CPU.
//
//   sum[i] = fma(even of x[i], even of y[i], fma(odd of x[i], odd of y[i], sum[i]))
//
// for words of two bf16, the even one in the lower half: both sums are rounded to nearest even, subnormal numbers count
// as zeros, whatever MXCSR says (Intel 64 and IA-32 Architectures Software Developer's Manual, VDPBF16PS).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::bf16_pairs {

inline constexpr int lanes = 16;
using Words = simd::Vector<uint32_t, lanes>;
using Sums = simd::Vector<float, lanes>;

/// The instruction, where `simd::bf16_pairs()` says `avx512bf16` and vectors are those of AVX-512.
struct Instruction {
  [[gnu::always_inline]] static Sums add(Sums sum, Words x, Words y) {
#if defined(__OPTIMIZE__) && !defined(__clang__)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
#else  // the functions around are not compiled for such registers, so the numbers go through memory
    asm("vmovups %0, %%zmm0\n\tvmovups %1, %%zmm1\n\tvdpbf16ps %2, %%zmm1, %%zmm0\n\tvmovups %%zmm0, %0"
        : "+m"(sum)
        : "m"(x), "m"(y)
        : "xmm0", "xmm1");
#endif
    return sum;
  }
};

/// What it does, number by number.
struct Model {
  [[gnu::always_inline]] static Sums add(Sums sum, Words x, Words y) {
    for (int i = 0; i < lanes; ++i) sum[i] = add_one(sum[i], x[i], y[i]);
    return sum;
  }
  static float add_one(float sum, uint32_t x, uint32_t y) {
    constexpr uint32_t odd = 0xffff0000u;
    const float first = flushed(std::fma(number(x & odd), number(y & odd), flushed(sum)));
    return flushed(std::fma(number(x << 16), number(y << 16), first));
  }

 private:
  static float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
  static float number(uint32_t bits) { return flushed(std::bit_cast<float>(bits)); }
};

}  // namespace reprise::kernels::bf16_pairs
