// Hopper's own PTX in the emulator: models as late and as unkind as the PTX manual allows. Here are the
// memory accesses of single threads, so that sanitizers see them; the models are in ptx_tma_models.cpp and
// ptx_wgmma_models.cpp, compiled without sanitizers.
#pragma once

#include <vector>

#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/simt/ptx_sm90.h"

namespace reprise::simt::ptx {
namespace detail {

inline void keep_written(float&) {}
inline void keep_written(uint32_t&) {}
template <class T, size_t n>
void keep_written(T (&)[n]) {}

void mbarrier_init(Mbarrier* barrier, int arrivals, Where where);
void mbarrier_arrive(Mbarrier* barrier, int bytes, Where where);
void mbarrier_wait(Mbarrier* barrier, int parity, Where where);

/// What a tile takes in shared memory; checks the map and the address.
size_t tile_bytes(const TensorMap* map, const void* shared, int rank, Where where);
void tma_load(void* to, const TensorMap* map, Mbarrier* barrier, const int* at, Where where);
void tma_store(const TensorMap* map, const void* from, const int* at, Where where);
void tma_store_wait(int pending, Where where);

enum class ElementType { bf16, f16 };

/// What a lane brings to a wgmma.
struct WgmmaRecord {
  float* d;
  int columns;
  ElementType type;
  Major b_major;
  bool accumulate, a_in_registers;
  uint32_t a[4];
  MatrixDescriptor a_descriptor, b_descriptor;
  Where where;
};
void wgmma(WgmmaRecord record);
void wgmma_commit(Where where);
void wgmma_wait(int pending, const float* d, Where where);

/// Offsets in shared memory of the 16-byte pieces that this lane answers for, of the tiles that the wgmmas
/// read which a wait for all but `pending` groups ends.
std::vector<uint32_t> pieces_read(int pending);

template <class T>
inline constexpr ElementType element_type = ElementType::bf16;
template <>
inline constexpr ElementType element_type<__half> = ElementType::f16;

}  // namespace detail

inline void mbarrier_init(Mbarrier* barrier, int arrivals, Here here) {
  detail::mbarrier_init(barrier, arrivals, {"mbarrier.init", here});
}
inline void mbarrier_arrive(Mbarrier* barrier, Here here) {
  detail::mbarrier_arrive(barrier, 0, {"mbarrier.arrive", here});
}
inline void mbarrier_arrive_expect(Mbarrier* barrier, int bytes, Here here) {
  detail::mbarrier_arrive(barrier, bytes, {"mbarrier.arrive.expect_tx", here});
}
inline void mbarrier_wait(Mbarrier* barrier, int parity, Here here) {
  detail::mbarrier_wait(barrier, parity, {"mbarrier.try_wait", here});
}

/// The tile's memory is lost at once; the data land when no thread can go on without them, or at random.
template <int rank>
void tma_load(void* to_shared, const TensorMap* map, Mbarrier* barrier, const int (&at)[rank], Here here) {
  const Where where{"cp.async.bulk.tensor", here};
  const size_t bytes = detail::tile_bytes(map, to_shared, rank, where);
  for (size_t i = 0; i < bytes; i += 16)
    *reinterpret_cast<detail::Bytes16*>(static_cast<char*>(to_shared) + i) = detail::lost(detail::Bytes16{});
  detail::tma_load(to_shared, map, barrier, at, where);
}

template <int rank>
void tma_store(const TensorMap* map, const void* from_shared, const int (&at)[rank], Here here) {
  const Where where{"cp.async.bulk.tensor", here};
  const size_t bytes = detail::tile_bytes(map, from_shared, rank, where);
  for (size_t i = 0; i < bytes; i += 16)
    [[maybe_unused]] volatile uint64_t seen =
        reinterpret_cast<const detail::Bytes16*>(static_cast<const char*>(from_shared) + i)->low;
  detail::tma_store(map, from_shared, at, where);
}
template <int pending>
void tma_store_wait() {
  detail::tma_store_wait(pending, {"cp.async.bulk.wait_group"});
}

template <int registers>
void lower_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
}
template <int registers>
void raise_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
}

inline MatrixDescriptor matrix_descriptor(const void* shared, int leading_bytes, int stride_bytes,
                                          Swizzle swizzle, Here here) {
  return detail::encoded_descriptor(shared_offset(shared, 16, {"matrix descriptor", here}), leading_bytes,
                                    stride_bytes, swizzle);
}
inline MatrixDescriptor advanced(MatrixDescriptor descriptor, int bytes) {
  return descriptor + (unsigned(bytes) >> 4);
}

template <class T, Major b_major, int n>
void wgmma(float (&d)[n], MatrixDescriptor a, MatrixDescriptor b, bool accumulate, Here here) {
  static_assert(n == 32 || n == 64);
  detail::wgmma({d, 2 * n, detail::element_type<T>, b_major, accumulate, false, {}, a, b, {"wgmma", here}});
}
template <class T, Major b_major, int n>
void wgmma(float (&d)[n], const uint32_t (&a)[4], MatrixDescriptor b, bool accumulate, Here here) {
  static_assert(n == 32 || n == 64);
  detail::wgmma({d,
                 2 * n,
                 detail::element_type<T>,
                 b_major,
                 accumulate,
                 true,
                 {a[0], a[1], a[2], a[3]},
                 0,
                 b,
                 {"wgmma", here}});
}
inline void wgmma_commit(Here here) { detail::wgmma_commit({"wgmma.commit_group", here}); }

/// The wgmmas run here, and the tiles are read until here: sanitizers see it.
template <int pending, int n>
void wgmma_wait(float (&d)[n], Here here) {
  const Where where{"wgmma.wait_group", here};
  if constexpr (sanitizer::address || sanitizer::thread)
    for (uint32_t offset : detail::pieces_read(pending))
      [[maybe_unused]] volatile uint64_t seen =
          static_cast<const detail::Bytes16*>(shared_ptr(offset, 16, where))->low;
  detail::wgmma_wait(pending, d, where);
}

}  // namespace reprise::simt::ptx
