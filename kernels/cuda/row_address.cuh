// Where the rows of a view start, for kernels that work row by row, and whether 16-byte packs fit them.
#pragma once

#include <span>

#include "reprise/kernels/cuda/any_float.cuh"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/strided.h"

namespace reprise::kernels::device {

/// Where the rows of a view start, counted row-major over all dimensions but the last.
template <class T>
struct Rows {
  Pointer<T> data{};  ///< null for an absent view
  int rank = 0;       ///< of what is left of those dimensions once merged; the last one first
  int64_t sizes[8] = {}, strides[8] = {};
  double reciprocals[8] = {};  ///< of the sizes

  __host__ __device__ explicit operator bool() const { return bool(data); }
  __device__ Pointer<T> at(int64_t row) const {
    if (rank == 1) return data + row * strides[0];
    int64_t offset = 0;
    for (int d = 0; d + 1 < rank; ++d) {
      // Dividing 64-bit integers costs a call, and registers for it. This is off by one at most.
      int64_t quotient = int64_t(double(row) * reciprocals[d]), index = row - quotient * sizes[d];
      const int64_t correction = index < 0 ? -1 : index >= sizes[d] ? 1 : 0;
      quotient += correction;
      index -= correction * sizes[d];
      offset += index * strides[d];
      row = quotient;
    }
    return data + offset + row * strides[rank - 1];
  }
};

/// The rows of a view of element type T, or of any as AnyFloat; absent or of rank 1 at least.
template <class T>
Rows<Element<T>> rows_at(const TensorView& view) {
  if (!view) return {};
  TensorView leading = view;
  leading.shape = Shape(std::span(view.shape.begin(), size_t(view.rank() - 1)));
  leading.strides = Strides(std::span(view.strides.begin(), size_t(view.rank() - 1)));
  collapse({&leading, 1});
  Rows<Element<T>> rows;
  rows.data = pointer_to<T>(view);
  rows.rank = leading.rank();
  for (int d = 0; d < rows.rank; ++d) {
    const int from = rows.rank - 1 - d;
    rows.sizes[d] = leading.shape[from];
    rows.strides[d] = leading.strides[from];
    rows.reciprocals[d] = 1.0 / double(leading.shape[from]);
  }
  return rows;
}

/// How 16-byte packs fit the rows of several views.
enum class Fit {
  none,
  shifted,  ///< each row starts equally far behind a 16-byte boundary in all of them
  whole     ///< each row starts at a boundary and is a multiple of 16 bytes long
};

/// The same of views of one shape and several dtypes, for packs of AnyFloat: where each row starts at a pack of its own
/// dtype.
inline Fit fit_of_any(std::span<const TensorView* const> views) {
  for (const TensorView* view : views)
    if (!rows_fit_packs(*view, pack_size<AnyFloat> * int64_t(size_of(view->dtype)))) return Fit::none;
  return Fit::whole;
}

/// Of views of one shape and dtype, of rank 1 at least; absent ones fit.
inline Fit fit_of(std::span<const TensorView* const> views) {
  if (all_rows_fit_packs(views)) return Fit::whole;
  const TensorView& first = *views.front();
  auto shift_of = [](const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data) % 16; };
  for (const TensorView* view : views) {
    if (!*view) continue;
    if (view->stride(-1) != 1 || shift_of(*view) != shift_of(first)) return Fit::none;
    for (int d = 0; d + 1 < view->rank(); ++d)
      if ((view->strides[d] - first.strides[d]) * int64_t(size_of(view->dtype)) % 16 != 0) return Fit::none;
  }
  return Fit::shifted;
}
inline Fit fit_of(std::initializer_list<const TensorView*> views) {
  return fit_of(std::span(views.begin(), views.size()));
}

/// How packs of T fit rows.
template <class T>
Fit fit_of_rows(std::span<const TensorView* const> views) {
  return std::is_same_v<T, AnyFloat> ? fit_of_any(views) : fit_of(views);
}

}  // namespace reprise::kernels::device
