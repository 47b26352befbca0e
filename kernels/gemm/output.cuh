// The epilogue of a matrix multiply in device code: what happens to one sum on its way to C.
#pragma once

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels::device {

/// Numbers side by side in memory, of T, or of f32 where T is a half type: an epilogue's tensors have either, each its
/// own. A thread asks which for each pack, and all get the same answer.
template <class T>
struct Stored {
  using E = Element<T>;
  using C = Accumulator<T>;
  static constexpr bool may_be_wide = sizeof(E) == 2;

  void* data;
  bool is_wide;

  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ bool wide() const { return may_be_wide && is_wide; }
  __device__ void move(int64_t offset) {
    if (data) data = wide() ? static_cast<void*>(wide_at(offset)) : at(offset);
  }
  /// N numbers from number i on, by accesses of up to 16 bytes.
  template <int N>
  __device__ __forceinline__ void load(int64_t i, C (&v)[N]) const {
    if (wide()) {
      constexpr int n = N < wide_pack ? N : wide_pack;
#pragma unroll
      for (int p = 0; p < N; p += n) spread(load_pack<n>(wide_at(i + p)), v + p);
    } else {
      spread(load_pack<N>(at(i)), v);
    }
  }
  /// The same back, rounded once.
  template <int N>
  __device__ __forceinline__ void store(int64_t i, const C (&v)[N]) const {
    if (wide()) {
      constexpr int n = N < wide_pack ? N : wide_pack;
#pragma unroll
      for (int p = 0; p < N; p += n) store_pack(wide_at(i + p), rounded<C, n>(v + p));
    } else {
      store_pack(at(i), rounded<E, N>(v));
    }
  }

 private:
  static constexpr int wide_pack = pack_size<C>;
  __device__ E* at(int64_t i) const { return static_cast<E*>(data) + i; }
  __device__ C* wide_at(int64_t i) const { return static_cast<C*>(data) + i; }
  template <class From, int N>
  static __device__ __forceinline__ void spread(const Pack<From, N>& pack, C* v) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = to<C>(pack.at[i]);
  }
  template <class To, int N>
  static __device__ __forceinline__ Pack<To, N> rounded(const C* v) {
    Pack<To, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = from<To>(v[i]);
    return pack;
  }
};

/// Of a view, which holds T or, if that is a half type, f32; none if it is absent.
template <class T>
Stored<T> stored_of(const TensorView& view) {
  return {view ? view.data : nullptr, view.dtype != dtype_of<T>};
}

/// C and the tensors its epilogue reads and writes; some may be absent. Strides are between rows.
template <class T>
struct GemmOutput {
  using C = Accumulator<T>;
  static constexpr int views = 4;  ///< that have batch dimensions

  Stored<T> c, pre_activation, residual, dactivation, bias, scale, row_scale;
  int64_t c_stride, pre_activation_stride, residual_stride, dactivation_stride;
  std::array<DeviceStrides, views> batch_strides;
  int64_t sample_rows;  ///< that share a number of row_scale
  Activation activation;
  bool accumulate;

  /// Moves to matrix `index` of the batch.
  __device__ void select(int64_t index, const DeviceShape& batch) {
    const auto offsets = offsets_of<views>(index, batch, batch_strides);
    c.move(offsets[0]);
    pre_activation.move(offsets[1]);
    residual.move(offsets[2]);
    dactivation.move(offsets[3]);
  }

  /// Writes columns [column, column + N) of a row, whose sums over K are v. What is read is read first.
  template <int N>
  __device__ __forceinline__ void write(int64_t row, int64_t column, C (&v)[N]) const {
    const int64_t target = row * c_stride + column;
    C old[N] = {}, factor[N] = {}, added[N] = {}, numbers[N];
    if (accumulate) c.load(target, old);
    if (dactivation) dactivation.load(row * dactivation_stride + column, factor);
    if (residual) residual.load(row * residual_stride + column, added);
    if (dactivation) {
      with_activation(activation, [&]<Activation known>() {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = CudaFormulas::Activate<known>{}.gradient(v[i], factor[i]);
      });
    } else {
      if (bias) {
        bias.load(column, numbers);
        add(numbers, v);
      }
      if (pre_activation) pre_activation.store(row * pre_activation_stride + column, v);
      with_activation(activation, [&]<Activation known>() {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = CudaFormulas::Activate<known>{}(v[i]);
      });
      if (scale) {
        scale.load(column, numbers);
        multiply(numbers, v);
      }
      if (row_scale) {
        C number[1];
        row_scale.load(row / sample_rows, number);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] *= number[0];
      }
      if (residual) add(added, v);
    }
    if (accumulate) add(old, v);
    c.store(target, v);
  }

 private:
  template <int N>
  static __device__ __forceinline__ void add(const C (&x)[N], C (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += x[i];
  }
  template <int N>
  static __device__ __forceinline__ void multiply(const C (&x)[N], C (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= x[i];
  }
};

/// The batch dimensions of (batch..., rows, columns); none of an absent view.
inline TensorView batch_of(TensorView view) {
  const size_t rank = size_t(view.rank() > 2 ? view.rank() - 2 : 0);
  view.shape = Shape(std::span(view.shape.begin(), rank));
  view.strides = Strides(std::span(view.strides.begin(), rank));
  return view;
}

template <class T>
GemmOutput<T> gemm_output_of(const gemm_detail::Operands& x, const Epilogue& epilogue) {
  auto stride = [](const TensorView& view) { return view ? view.stride(-2) : 0; };
  return {.c = stored_of<T>(x.c),
          .pre_activation = stored_of<T>(x.pre_activation),
          .residual = stored_of<T>(x.residual),
          .dactivation = stored_of<T>(x.dactivation),
          .bias = stored_of<T>(epilogue.bias),
          .scale = stored_of<T>(epilogue.scale),
          .row_scale = stored_of<T>(epilogue.row_scale),
          .c_stride = stride(x.c),
          .pre_activation_stride = stride(x.pre_activation),
          .residual_stride = stride(x.residual),
          .dactivation_stride = stride(x.dactivation),
          .batch_strides = {device_strides(batch_of(x.c)), device_strides(batch_of(x.pre_activation)),
                            device_strides(batch_of(x.residual)), device_strides(batch_of(x.dactivation))},
          .sample_rows = gemm_detail::sample_rows(x.c, epilogue),
          .activation = epilogue.applied_activation(),
          .accumulate = epilogue.accumulate};
}

}  // namespace reprise::kernels::device
