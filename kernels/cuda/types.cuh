// Element types as CUDA code sees them: what a TensorView of each dtype points to, and conversions to and
// from the type arithmetic is done in.
#pragma once

#include <type_traits>

#include "reprise/core/dtype.h"
#include "reprise/core/view.h"
#include "reprise/kernels/convert.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

/// CUDA's own type for an element: __nv_bfloat16 for BFloat16, __half for Float16, else the type itself.
template <class T>
struct ElementOf {
  using type = T;
};
template <>
struct ElementOf<BFloat16> {
  using type = __nv_bfloat16;
};
template <>
struct ElementOf<Float16> {
  using type = __half;
};
template <class T>
using Element = typename ElementOf<T>::type;

/// The data of a view of element type T (BFloat16 and Float16 by their host names); null for an absent one.
template <class T>
Element<T>* data_of(const TensorView& view) {
  return view ? reinterpret_cast<Element<T>*>(view.as<T>()) : nullptr;
}

/// The number in x as type C (float, double or int64_t).
template <class C, class T>
__device__ __forceinline__ C to(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return C(__bfloat162float(x));
  else if constexpr (std::is_same_v<T, __half>)
    return C(__half2float(x));
  else
    return C(x);
}

/// x rounded to element type T.
template <class T, class C>
__device__ __forceinline__ T from(C x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(float(x));
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(float(x));
  else if constexpr (std::is_same_v<T, bool>)
    return x != C(0);
  else
    return T(x);
}

/// `a` divided by `b`, rounded up.
template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// A grid of so many blocks. Error instead of a number that wraps.
inline unsigned grid_of(const char* kernel, int64_t blocks) {
  check(blocks <= 0x7fffffff, kernel, ": ", blocks, " blocks are more than one launch takes");
  return unsigned(blocks);
}

}  // namespace reprise::kernels::device
