// Packs: several elements moved by one access of up to 16 bytes.
#pragma once

#include <initializer_list>
#include <span>

#include "reprise/kernels/cuda/types.cuh"

namespace reprise::kernels::device {

/// N elements, aligned as a whole.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

/// Elements of T in 16 bytes.
template <class T>
inline constexpr int pack_size = int(16 / sizeof(T));

/// One access where sizeof(Pack) allows it; `from` must be aligned to the pack.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  simt::check_aligned(from, sizeof(Pack<T, N>), "the pack at");
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  simt::check_aligned(to, sizeof(Pack<T, N>), "the pack at");
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Whether packs of `bytes` fit every row of a view with stride 1 in its last dimension: the first element,
/// the other strides and the row length are multiples of a pack. True for an absent view.
inline bool rows_fit_packs(const TensorView& view, int64_t bytes = 16) {
  if (!view) return true;
  int64_t size = int64_t(size_of(view.dtype));
  if (reinterpret_cast<uintptr_t>(view.data) % uintptr_t(bytes) != 0) return false;
  if (view.rank() == 0) return false;
  for (int d = 0; d + 1 < view.rank(); ++d)
    if (view.strides[d] * size % bytes != 0) return false;
  return view.shape.back() * size % bytes == 0 && view.stride(-1) == 1;
}

/// The same for several views.
inline bool all_rows_fit_packs(std::span<const TensorView* const> views, int64_t bytes = 16) {
  for (const TensorView* view : views)
    if (!rows_fit_packs(*view, bytes)) return false;
  return true;
}

inline bool all_rows_fit_packs(std::initializer_list<const TensorView*> views, int64_t bytes = 16) {
  return all_rows_fit_packs(std::span(views.begin(), views.size()), bytes);
}

}  // namespace reprise::kernels::device
