// A parameter as an optimizer's kernel finds it in memory, and runs of elements that a thread moves at once.
#pragma once

#include <type_traits>

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/optimizer/optimizer_step_checks.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

/// Elements that one access takes of a run of W.
template <int W, class T>
inline constexpr int access_size = W < pack_size<T> ? W : pack_size<T>;

/// W elements from `from` on, in the type they are computed in.
template <int W, class T, class C>
__device__ __forceinline__ void load_run(const T* from, C (&to_)[W]) {
  constexpr int N = access_size<W, T>;
#pragma unroll
  for (int k = 0; k < W; k += N) {
    const Pack<T, N> pack = load_pack<N>(from + k);
#pragma unroll
    for (int e = 0; e < N; ++e) to_[k + e] = to<C>(pack.at[e]);
  }
}
/// Stores W elements; make(e) gives the e-th.
template <int W, class T, class Make>
__device__ __forceinline__ void store_run(T* into, Make&& make) {
  constexpr int N = access_size<W, T>;
#pragma unroll
  for (int k = 0; k < W; k += N) {
    Pack<T, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) pack.at[e] = make(k + e);
    store_pack(into + k, pack);
  }
}
template <int W, class T>
__device__ __forceinline__ bool fits_runs(const T* data) {
  return fits_packs<access_size<W, T>>(data);
}

/// Stores W numbers as they are, or rounded at random to bf16; element `at` is the first.
template <int W, class M, class C>
__device__ __forceinline__ void store_rounded(M* into, const C (&x)[W], const DrawSequence& draws,
                                              DrawsOf what, int64_t at) {
  if constexpr (std::is_same_v<M, C>) {
    store_run<W>(into, [&](int e) { return x[e]; });
  } else {
    const auto block = draws.block(what, uint64_t(at));
    store_run<W>(reinterpret_cast<uint16_t*>(into), [&](int e) {
      const uint64_t number = uint64_t(W == 1 ? at % kDrawsInBlock : e);
      return rounded_at_random(__float_as_uint(x[e]), draw_of(block, number));
    });
  }
}

/// A parameter as it is stored: loads and stores W elements from `at` on.
template <class C, Stored S>
struct Parameter {
  using Half = Element<std::conditional_t<S == Stored::f16_copy, Float16, BFloat16>>;
  using T = std::conditional_t<S == Stored::split || S == Stored::random, uint16_t, C>;
  using Beside = std::conditional_t<S == Stored::split, int16_t, Half>;
  static constexpr bool has_beside = S == Stored::split || S == Stored::bf16_copy || S == Stored::f16_copy;
  T* data;
  Beside* beside;

  template <int W>
  __device__ __forceinline__ bool fits() const {
    return fits_runs<W>(data) && (!has_beside || fits_runs<W>(beside));
  }
  template <int W>
  __device__ __forceinline__ void load(int64_t at, C (&p)[W]) const {
    if constexpr (S == Stored::split) {
      uint16_t upper[W];
      int16_t rest[W];
      load_run<W>(data + at, upper);
      load_run<W>(beside + at, rest);
#pragma unroll
      for (int e = 0; e < W; ++e) p[e] = __uint_as_float(joined({upper[e], rest[e]}));
    } else if constexpr (S == Stored::random) {
      uint16_t bits[W];
      load_run<W>(data + at, bits);
#pragma unroll
      for (int e = 0; e < W; ++e) p[e] = __uint_as_float(uint32_t(bits[e]) << 16);
    } else {
      load_run<W>(data + at, p);
    }
  }
  template <int W>
  __device__ __forceinline__ void store(int64_t at, const C (&p)[W], const DrawSequence& draws) const {
    if constexpr (S == Stored::split) {
      store_run<W>(data + at, [&](int e) { return split(__float_as_uint(p[e])).upper; });
      store_run<W>(beside + at, [&](int e) { return split(__float_as_uint(p[e])).rest; });
    } else if constexpr (S == Stored::random) {
      store_rounded<W>(reinterpret_cast<__nv_bfloat16*>(data) + at, p, draws, DrawsOf::parameter, at);
    } else {
      store_run<W>(data + at, [&](int e) { return p[e]; });
      if constexpr (has_beside) store_run<W>(beside + at, [&](int e) { return from<Half>(p[e]); });
    }
  }
};

}  // namespace reprise::kernels::device
