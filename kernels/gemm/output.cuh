// The epilogue of a matrix multiply in device code: what happens to one sum on its way to C.
#pragma once

#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/elementwise/cuda_math.cuh"
#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels::device {

/// C and the tensors its epilogue reads and writes; absent ones are null. Strides are between rows.
template <class T>
struct GemmOutput {
  using E = Element<T>;
  using C = Accumulator<T>;
  static constexpr int views = 4;  ///< that have batch dimensions

  E* c;
  E* pre_activation;
  const E* residual;
  const E* dactivation;
  const E* bias;
  int64_t c_stride, pre_activation_stride, residual_stride, dactivation_stride;
  std::array<DeviceStrides, views> batch_strides;
  Activation activation;
  bool accumulate;

  /// Moves to matrix `index` of the batch.
  __device__ void select(int64_t index, const DeviceShape& batch) {
    const auto offsets = offsets_of<views>(index, batch, batch_strides);
    c += offsets[0];
    if (pre_activation) pre_activation += offsets[1];
    if (residual) residual += offsets[2];
    if (dactivation) dactivation += offsets[3];
  }

  /// Writes columns [column, column + N) of a row, whose sums over K are v. What is read is read first.
  template <int N>
  __device__ __forceinline__ void write(int64_t row, int64_t column, C (&v)[N]) const {
    E* target = c + row * c_stride + column;
    Pack<E, N> old{}, factor{}, added{};
    if (accumulate) old = load_pack<N>(target);
    if (dactivation) factor = load_pack<N>(dactivation + row * dactivation_stride + column);
    if (residual) added = load_pack<N>(residual + row * residual_stride + column);
    if (dactivation) {
      with_activation(activation, [&]<Activation known>() {
#pragma unroll
        for (int i = 0; i < N; ++i)
          v[i] = CudaFormulas::Activate<known>{}.gradient(v[i], to<C>(factor.at[i]));
      });
    } else {
      if (bias) add(load_pack<N>(bias + column), v);
      if (pre_activation) store_pack(pre_activation + row * pre_activation_stride + column, rounded(v));
      with_activation(activation, [&]<Activation known>() {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = CudaFormulas::Activate<known>{}(v[i]);
      });
      if (residual) add(added, v);
    }
    if (accumulate) add(old, v);
    store_pack(target, rounded(v));
  }

 private:
  template <int N>
  static __device__ __forceinline__ void add(const Pack<E, N>& pack, C (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += to<C>(pack.at[i]);
  }
  template <int N>
  static __device__ __forceinline__ Pack<E, N> rounded(const C (&v)[N]) {
    Pack<E, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = from<E>(v[i]);
    return pack;
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
  return {.c = data_of<T>(x.c),
          .pre_activation = data_of<T>(x.pre_activation),
          .residual = data_of<T>(x.residual),
          .dactivation = data_of<T>(x.dactivation),
          .bias = data_of<T>(epilogue.bias),
          .c_stride = stride(x.c),
          .pre_activation_stride = stride(x.pre_activation),
          .residual_stride = stride(x.residual),
          .dactivation_stride = stride(x.dactivation),
          .batch_strides = {device_strides(batch_of(x.c)), device_strides(batch_of(x.pre_activation)),
                            device_strides(batch_of(x.residual)), device_strides(batch_of(x.dactivation))},
          .activation = epilogue.activation,
          .accumulate = epilogue.accumulate};
}

}  // namespace reprise::kernels::device
