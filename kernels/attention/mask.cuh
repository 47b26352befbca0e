// The mask of a call in device code: what it adds to the score of a query and a key.
#pragma once

#include "reprise/kernels/attention/problem.h"
#include "reprise/kernels/cuda/types.cuh"

namespace reprise::kernels::device {

/// A boolean mask, or an additive one: in the type that sums are kept in, or in the dtype of q.
enum class MaskKind { boolean, additive_wide, additive_narrow };

/// The mask (T_q, T_k) of one head, with strides in bytes. T is the dtype of q, C that of sums.
template <class T, class C>
struct HeadMask {
  const char* data;
  int64_t query_stride, key_stride;
  MaskKind kind;

  /// -inf where the key is hidden.
  __device__ __forceinline__ C added(int query, int key) const {
    const char* at = data + query * query_stride + key * key_stride;
    if (kind == MaskKind::boolean) return *at != 0 ? C(0) : C(-INFINITY);
    const C number = kind == MaskKind::additive_wide ? *reinterpret_cast<const C*>(at)
                                                     : to<C>(*reinterpret_cast<const T*>(at));
    return hides(number) ? C(-INFINITY) : number;
  }
};

/// The mask (B, H, T_q, T_k) of a call, or none.
template <class T, class C>
struct Mask {
  const char* data;
  int64_t batch_stride, head_stride, query_stride, key_stride;  // bytes
  MaskKind kind;

  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ HeadMask<T, C> at(int64_t b, int64_t h) const {
    return {data + b * batch_stride + h * head_stride, query_stride, key_stride, kind};
  }
};

/// T by its host name.
template <class T, class C>
Mask<Element<T>, C> mask_of(const TensorView& view) {
  if (!view) return {};
  const int64_t bytes = int64_t(size_of(view.dtype));
  return {static_cast<const char*>(view.data),
          view.stride(0) * bytes,
          view.stride(1) * bytes,
          view.stride(2) * bytes,
          view.stride(3) * bytes,
          view.dtype == DType::boolean ? MaskKind::boolean
          : view.dtype == dtype_of<C>  ? MaskKind::additive_wide
                                       : MaskKind::additive_narrow};
}

}  // namespace reprise::kernels::device
