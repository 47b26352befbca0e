// Kernels of one instruction each, for the tests of simt/ptx.h: the test gives what every lane brings
// and looks at what every lane gets. All pointers are to memory that the device and the host both reach
// (PinnedArray).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/stream.h"

namespace reprise::simt::testing {

/// n zeros in pinned memory.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t n) : data_(static_cast<T*>(cuda::allocate_pinned(n * sizeof(T)))), size_(n) {
    for (size_t i = 0; i < n; ++i) new (data_ + i) T{};
  }
  ~PinnedArray() { cuda::release_pinned(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  T* data_;
  size_t size_;
};

enum class TileType { bf16, f16, tf32 };

/// One warp: d (32 lanes, 4) += a (32, 4) b (32, 2), registers as each lane holds them.
void run_mma(const Stream& stream, TileType type, const uint32_t* a, const uint32_t* b, float* d);

/// One warp loads `count` matrices from 64 rows of 8 elements; lane l gives the address of rows[l]. r (32,
/// 4).
void run_ldmatrix(const Stream& stream, int count, bool transposed, const uint16_t* rows_of_8,
                  const int* rows, uint32_t* r);

inline constexpr int copy_threads = 64, copy_stages = 3;
/// Each of 64 threads copies one piece of `bytes` in each of 3 groups, waits for them one by one, and writes
/// what all threads then see: to[s] is what stage s had when only later stages could be under way. from, to
/// (3, 64) pieces; valid (3, 64).
void run_cp_async(const Stream& stream, int bytes, const unsigned char* from, const bool* valid,
                  unsigned char* to);

/// y (16, 8) = q (16, 32) k^T, k (8, 32) bf16 by rows; z (16, 16) = (y | y rounded) v, v (16, 16): the two
/// products of attention, through cp.async, ldmatrix and mma.
void run_two_products(const Stream& stream, const uint16_t* q, const uint16_t* k, const uint16_t* v, float* y,
                      float* z);

/// Warps 0 and 1 write n numbers and arrive at barrier 1; warps 2 and 3 sync there and copy them to `to` (n).
/// Barrier 2 tells the writers that they may go on. `rounds` times, with other numbers.
void run_named_barriers(const Stream& stream, int rounds, int* to);

struct Approximations {
  float exp2, log2, tanh;
  uint32_t tf32;
};
void run_approximations(const Stream& stream, const float* x, Approximations* y, int n);

/// Mistakes that the emulator reports, or shows in the results.
enum class Misuse {
  none,
  no_wait,
  lax_wait,
  no_commit,
  unaligned_destination,
  unaligned_source,
  unaligned_row,
  row_in_global_memory,
  partial_warp,
  barrier_of_part_of_a_warp,
  barrier_id,
};
/// One warp copies 32 x 16 bytes from `from` to `to` through shared memory, making the mistake.
void run_misuse(const Stream& stream, Misuse misuse, const unsigned char* from, unsigned char* to);

}  // namespace reprise::simt::testing
