// PTX in the emulator: each wrapper of ptx.h as a model of the instruction, as unkind as the PTX manual
// allows. Here are the checks and the memory accesses of single threads, so that sanitizers see them; what a
// warp does together is in ptx_models.cpp, which is compiled without sanitizers.
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "reprise/simt/emulator/runtime.h"
#include "reprise/simt/ptx.h"

namespace reprise::simt::ptx {
namespace detail {

// Memory is touched by typed accesses: GCC's ThreadSanitizer misses small memcpy and memset calls.
struct [[gnu::may_alias]] alignas(16) Bytes16 {
  uint64_t low, high;
};
struct [[gnu::may_alias]] alignas(8) Bytes8 {
  uint64_t all;
};
struct [[gnu::may_alias]] alignas(4) Bytes4 {
  uint32_t all;
};
inline constexpr Bytes16 lost(Bytes16) { return {~0ull, ~0ull}; }
inline constexpr Bytes8 lost(Bytes8) { return {~0ull}; }
inline constexpr Bytes4 lost(Bytes4) { return {~0u}; }

/// The source is read at once, so that a wild address is reported at the call. The destination is lost at
/// once, and the bytes arrive at the wait: no missing or lax wait can pass.
template <class Bytes>
void cp_async(void* to, const void* from, bool valid, Where where) {
  if (shared_offset(to, sizeof(Bytes), where) % sizeof(Bytes) != 0)
    fail(where, "destination ", to, " is not ", sizeof(Bytes), "-byte aligned");
  check_aligned(from, sizeof(Bytes), "source", where);
  CpAsync copy{.to = to, .bytes = unsigned(sizeof(Bytes)), .data = {}};
  if (valid) *reinterpret_cast<Bytes*>(copy.data.data()) = *static_cast<const Bytes*>(from);
  *static_cast<Bytes*>(to) = lost(Bytes{});
  cp_async_push(copy);
}

/// What a lane brings to and takes from an ldmatrix of `Count` matrices. Only the lanes that give a row have
/// one.
struct MatrixRow {
  alignas(16) unsigned char bytes[16];
  uint32_t offset;
  uint32_t r[4];
  Where where;
};
template <int count, bool transposed>
void ldmatrix_model(void** lanes, uint32_t arrived);

template <int count, bool transposed>
void ldmatrix(uint32_t* r, const void* row, Where where) {
  MatrixRow record{.bytes = {}, .offset = 0, .r = {}, .where = where};
  if (self.lane < 8 * count) {
    record.offset = shared_offset(row, 16, where);
    if (record.offset % 16 != 0) fail(where, "row ", row, " is not 16-byte aligned");
    *reinterpret_cast<Bytes16*>(record.bytes) = *static_cast<const Bytes16*>(row);
  }
  warp_collective(~0u, &record, &ldmatrix_model<count, transposed>, false, where);
  for (int j = 0; j < count; ++j) r[j] = record.r[j];
}

/// What a lane brings to and takes from an mma: its registers of A, B and of D, which is overwritten.
struct MmaRegisters {
  uint32_t a[4];
  uint32_t b[2];
  float d[4];
  Where where;
};
struct Tf32 {};
/// The tile product of element type T: __nv_bfloat16, __half or Tf32.
template <class T>
void mma_model(void** lanes, uint32_t arrived);

template <class T>
void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Where where) {
  MmaRegisters record{{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}, where};
  warp_collective(~0u, &record, &mma_model<T>, false, where);
  for (int i = 0; i < 4; ++i) d[i] = record.d[i];
}

inline float without_subnormal(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

inline void check_named_barrier(int id, int threads, Where where) {
  if (id < 0 || id > 15) fail(where, "barrier ", id, " is not one of 0 to 15");
  if (threads <= 0 || threads % 32 != 0) fail(where, threads, " threads are not whole warps");
}

}  // namespace detail

inline void cp_async16(void* to_shared, const void* from_global, bool valid, Here here) {
  detail::cp_async<detail::Bytes16>(to_shared, from_global, valid, {"cp.async", here});
}
inline void cp_async8(void* to_shared, const void* from_global, bool valid, Here here) {
  detail::cp_async<detail::Bytes8>(to_shared, from_global, valid, {"cp.async", here});
}
inline void cp_async4(void* to_shared, const void* from_global, bool valid, Here here) {
  detail::cp_async<detail::Bytes4>(to_shared, from_global, valid, {"cp.async", here});
}
inline void cp_async_commit() { cp_async_commit_group(); }
template <int pending>
void cp_async_wait() {
  static_assert(pending >= 0);
  simt::cp_async_wait(pending);
}

inline void ldmatrix_x1(uint32_t& r, const void* row, Here here) {
  detail::ldmatrix<1, false>(&r, row, {"ldmatrix.x1", here});
}
inline void ldmatrix_x2(uint32_t (&r)[2], const void* row, Here here) {
  detail::ldmatrix<2, false>(r, row, {"ldmatrix.x2", here});
}
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row, Here here) {
  detail::ldmatrix<4, false>(r, row, {"ldmatrix.x4", here});
}
inline void ldmatrix_x1_trans(uint32_t& r, const void* row, Here here) {
  detail::ldmatrix<1, true>(&r, row, {"ldmatrix.x1.trans", here});
}
inline void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row, Here here) {
  detail::ldmatrix<2, true>(r, row, {"ldmatrix.x2.trans", here});
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row, Here here) {
  detail::ldmatrix<4, true>(r, row, {"ldmatrix.x4.trans", here});
}

template <class T>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Here here) {
  static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>);
  detail::mma<T>(d, a, b0, b1, {"mma.m16n8k16", here});
}
inline void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Here here) {
  detail::mma<detail::Tf32>(d, a, b0, b1, {"mma.m16n8k8.tf32", here});
}
/// Adding half a unit to the magnitude and cutting rounds ties away from zero; a carry may run into the
/// exponent, as it should.
inline uint32_t to_tf32(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & 0xffffe000 : bits & 0xffffe000;
}

inline void bar_sync(int id, int threads, Here here) {
  detail::check_named_barrier(id, threads, {"bar.sync", here});
  block_barrier(id, threads, {"bar.sync", here});
}
inline void bar_arrive(int id, int threads, Here here) {
  detail::check_named_barrier(id, threads, {"bar.arrive", here});
  simt::bar_arrive(id, threads, {"bar.arrive", here});
}

inline float exp2_approx(float x) {
  return detail::without_subnormal(std::exp2(detail::without_subnormal(x)));
}
inline float log2_approx(float x) { return std::log2(detail::without_subnormal(x)); }
inline float tanh_approx(float x) { return std::tanh(x); }

}  // namespace reprise::simt::ptx
