// Rows of f32, bf16 or f16, as is known when a kernel runs. A kernel of AnyFloat is that of f32, with its packs and its
// order of sums, but for loads and stores, which convert: its results have the bits of casts before and after it.
#pragma once

#include "reprise/kernels/cuda/pack.cuh"

namespace reprise::kernels::device {

/// In the place of an element type; packs have as many elements as those of f32.
struct AnyFloat {
  float number;
};

class AnyFloatPointer {
 public:
  AnyFloatPointer() = default;
  explicit AnyFloatPointer(const TensorView& view) : data_(view.data), dtype_(view.dtype) {}

  __host__ __device__ explicit operator bool() const { return data_ != nullptr; }
  __device__ AnyFloatPointer operator+(int64_t offset) const {
    AnyFloatPointer moved = *this;
    moved.data_ = static_cast<char*>(data_) + offset * (dtype_ == DType::f32 ? 4 : 2);
    return moved;
  }
  __device__ float operator[](int64_t i) const { return (*this + i).load<1>().at[0]; }

  template <int N>
  __device__ __forceinline__ Pack<float, N> load() const {
    if (dtype_ == DType::f32) return load_pack<N>(static_cast<const float*>(data_));
    if (dtype_ == DType::bf16) return widened(load_pack<N>(static_cast<const __nv_bfloat16*>(data_)));
    return widened(load_pack<N>(static_cast<const __half*>(data_)));
  }
  template <int N>
  __device__ __forceinline__ void store(const Pack<float, N>& pack) const {
    if (dtype_ == DType::f32)
      store_pack(static_cast<float*>(data_), pack);
    else if (dtype_ == DType::bf16)
      store_pack(static_cast<__nv_bfloat16*>(data_), rounded<__nv_bfloat16>(pack));
    else
      store_pack(static_cast<__half*>(data_), rounded<__half>(pack));
  }
  /// What `load` gives after `store`.
  template <int N>
  __device__ __forceinline__ Pack<float, N> as_stored(const Pack<float, N>& pack) const {
    if (dtype_ == DType::f32) return pack;
    if (dtype_ == DType::bf16) return widened(rounded<__nv_bfloat16>(pack));
    return widened(rounded<__half>(pack));
  }

 private:
  template <class T, int N>
  static __device__ __forceinline__ Pack<float, N> widened(const Pack<T, N>& pack) {
    Pack<float, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = to<float>(pack.at[i]);
    return result;
  }
  template <class T, int N>
  static __device__ __forceinline__ Pack<T, N> rounded(const Pack<float, N>& pack) {
    Pack<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = from<T>(pack.at[i]);
    return result;
  }

  void* data_ = nullptr;
  DType dtype_ = DType::f32;
};

template <int N>
__device__ __forceinline__ Pack<float, N> load_pack(const AnyFloatPointer& from) {
  return from.load<N>();
}
template <int N>
__device__ __forceinline__ void store_pack(const AnyFloatPointer& to, const Pack<float, N>& pack) {
  to.store(pack);
}

/// What points to elements of T.
template <class T>
struct PointerTo {
  using type = T*;
};
template <>
struct PointerTo<AnyFloat> {
  using type = AnyFloatPointer;
};
template <>
struct PointerTo<const AnyFloat> {
  using type = AnyFloatPointer;
};
template <class T>
using Pointer = typename PointerTo<T>::type;

/// The first element of a view, by its dtype's host name or as AnyFloat; null for an absent one.
template <class T>
Pointer<Element<T>> pointer_to(const TensorView& view) {
  if constexpr (std::is_same_v<T, AnyFloat>)
    return AnyFloatPointer(view);
  else
    return data_of<T>(view);
}

/// The type that an element of T has in registers.
template <class T>
using Kept = std::conditional_t<std::is_same_v<T, AnyFloat>, float, T>;

}  // namespace reprise::kernels::device
