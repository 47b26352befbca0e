// Vector code written once, compiled for AVX-512, AVX2 and the portable baseline, chosen at run time.
//
//   simd::run([&]<int W>() {            // W: floats in a vector of this machine: 16, 8 or 4
//     using V = simd::Vector<float, W>;
//     ...
//   });
//
// The body is inlined into one function per instruction set, and everything it calls into it; so it must be
// self-contained: no calls into other translation units on hot paths, `parallel_for` outside, `run` inside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/kernels/cpu/unaligned.h"

namespace reprise::kernels::simd {

// Note [Vectors never cross a call]
// A function that takes or returns vectors is `always_inline`: the body of `run` is compiled for wider
// registers than the rest of the program, and the two sides of a real call would disagree about where a
// vector is passed.

enum class Isa { portable, avx2, avx512 };

/// The vectors of the fastest instruction set of this CPU, or of what REPRISE_ISA (portable, avx2, avx512, avx512bf16, amx, or
/// one of the models avx512bf16-model and amx-model) asks for, if the CPU has it. The last two have AVX-512's.
Isa isa();

/// What multiplies tiles of matrices (amx.h): nothing, AMX, or its model in plain C++, which is for tests.
enum class Tiles { none, amx, model };

/// AMX where the CPU has it and the kernel lends it to this process; none where REPRISE_ISA names another instruction set,
/// the model where it says amx-model.
Tiles tiles();

/// What multiplies pairs of bf16 (bf16_pairs.h): nothing, AVX512-BF16 (on Intel's CPUs if asked for), or its model, for tests.
enum class Bf16Pairs { none, avx512bf16, model };
Bf16Pairs bf16_pairs();

template <class T, int W>
struct VectorOf {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
/// W values of T; arithmetic and comparisons are elementwise (GCC and Clang vector extensions). Memory is
/// read and written by `load` and `store`.
template <class T, int W>
using Vector = typename VectorOf<T, W>::type;

template <class V, class T>
[[gnu::always_inline]] inline V load(const T* from) {
  return detail::read(reinterpret_cast<const detail::Unaligned<V>*>(from));
}

template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, V value) {
  detail::write(reinterpret_cast<detail::Unaligned<V>*>(to), value);
}

/// `store` past the caches, of vectors of at least 32 bytes to a multiple of their size: what is overwritten is not read
/// before. Other threads see it after `finish_past_caches`.
template <class T, class V>
[[gnu::always_inline]] inline void store_past_caches(T* to, V value) {
  if constexpr (sizeof(V) >= 32)
    if (reinterpret_cast<uintptr_t>(to) % sizeof(V) == 0)
      return detail::write_past_caches(reinterpret_cast<detail::Unaligned<V>*>(to), value);
  store(to, value);
}
inline void finish_past_caches() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

/// Whether an output of so many bytes is best written so.
bool is_best_past_caches(int64_t bytes);

/// The sum of the lanes, as a fixed tree: halves are added until one is left.
template <int W, class T>
[[gnu::always_inline]] inline T sum_lanes(Vector<T, W> v) {
  T lanes[std::size_t(W)];
  store(lanes, v);
  for (int half = W / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

namespace detail {
// Clang spells the width of its own vectors otherwise, and drops a whole target that has a word it does not
// know.
#ifdef __clang__
#define REPRISE_AVX512 \
  gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2"), clang::min_vector_width(512)
#else
#define REPRISE_AVX512 \
  gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,prefer-vector-width=512")
#endif
template <class Body>
[[REPRISE_AVX512, gnu::flatten, gnu::noinline]] void run_avx512(Body& body) {
  body.template operator()<16>();
}
#undef REPRISE_AVX512
template <class Body>
[[gnu::target("avx2,fma,f16c,bmi2"), gnu::flatten, gnu::noinline]] void run_avx2(Body& body) {
  body.template operator()<8>();
}
template <class Body>
[[gnu::flatten, gnu::noinline]] void run_portable(Body& body) {
  body.template operator()<4>();
}
}  // namespace detail

// REPRISE_SIMD_LANES: the W of the one instruction set that is compiled, as in a sanitizer's build, where three would take
// twice as long; 0, or nothing: all of them. `isa` chooses among what there is.
#ifndef REPRISE_SIMD_LANES
#define REPRISE_SIMD_LANES 0
#endif
constexpr bool is_compiled(Isa isa) {
  constexpr int lanes[] = {4, 8, 16};
  return REPRISE_SIMD_LANES == 0 || REPRISE_SIMD_LANES == lanes[int(isa)];
}

template <class Body>
void run(Body&& body) {
  switch (isa()) {
    case Isa::avx512:
      if constexpr (is_compiled(Isa::avx512)) detail::run_avx512(body);
      break;
    case Isa::avx2:
      if constexpr (is_compiled(Isa::avx2)) detail::run_avx2(body);
      break;
    case Isa::portable:
      if constexpr (is_compiled(Isa::portable)) detail::run_portable(body);
  }
}

}  // namespace reprise::kernels::simd
