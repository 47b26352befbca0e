// The tile instructions of Intel's AMX for bf16, and the same in plain C++ for every CPU.
//
// A tile has 16 rows of 64 bytes. `dot_bf16<c, a, b>` adds the product of two tiles to a third:
//
//   C[m][n] += sum over k of A[m][2k] B[k][2n] + A[m][2k + 1] B[k][2n + 1]      m, n, k < 16
//
// where A and B hold bf16 and C f32. The sums of the even and of the odd places are made apart, in the order of k, then
// added, then added to C; subnormal numbers count as zeros, rounding is to nearest even, whatever MXCSR says (Intel 64
// and IA-32 Architectures Software Developer's Manual, TDPBF16PS).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::amx {

inline constexpr int tile_rows = 16, row_bytes = 64;

/// The use of eight whole tiles by this thread, where `simd::tiles()` says `amx`: the kernel lends a process its tiles
/// when asked.
class Lease {
 public:
  Lease() {
    struct alignas(64) Configuration {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {row_bytes, row_bytes, row_bytes, row_bytes,
                            row_bytes, row_bytes, row_bytes, row_bytes};
      uint8_t rows[16] = {tile_rows, tile_rows, tile_rows, tile_rows,
                          tile_rows, tile_rows, tile_rows, tile_rows};
    };
    static constexpr Configuration whole;
    asm volatile("ldtilecfg %0" : : "m"(whole));
  }
  ~Lease() { asm volatile("tilerelease"); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
};

/// The use of tiles by this thread, whatever `simd::tiles()` says.
class Session {
 public:
  Session() {
    if (simd::tiles() == simd::Tiles::amx) lease_.emplace();
  }

 private:
  std::optional<Lease> lease_;
};

/// The instructions, while this thread has a lease.
struct Instructions {
  template <int t>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  /// 16 rows of 64 bytes, `stride` bytes apart.
  template <int t>
  void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

/// What the instructions do, number by number.
class Model {
 public:
  template <int t>
  void zero() {
    std::memset(tiles_[t], 0, sizeof(tiles_[t]));
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    for (int row = 0; row < tile_rows; ++row)
      std::memcpy(tiles_[t][row], static_cast<const char*>(from) + row * stride, row_bytes);
  }
  template <int t>
  void store(void* to, int64_t stride) {
    for (int row = 0; row < tile_rows; ++row)
      std::memcpy(static_cast<char*>(to) + row * stride, tiles_[t][row], row_bytes);
  }
  template <int c, int a, int b>
  void dot_bf16() {
    dot_bf16(tiles_[c], tiles_[a], tiles_[b]);
  }

 private:
  using Tile = uint32_t[tile_rows][row_bytes / 4];
  static void dot_bf16(Tile& c, const Tile& a, const Tile& b);

  Tile tiles_[8] = {};
};

}  // namespace reprise::kernels::amx
