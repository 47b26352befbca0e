// Parameters of one row, such as gamma, of any floating dtype and stride: reading them in the type that
// kernels compute in, and writing their gradients from partial sums in a fixed order, without atomics.
#pragma once

#include <optional>

#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/cuda/workspace.h"

namespace reprise::kernels::device {

/// A vector of any floating dtype.
struct Parameter {
  void* data = nullptr;  ///< null for an absent one
  int64_t stride = 0;
  DType dtype = DType::f32;

  Parameter() = default;
  explicit Parameter(const TensorView& view)
      : data(view.data), stride(view ? view.strides[0] : 0), dtype(view.dtype) {}
};

template <class C>
__device__ __forceinline__ C load_parameter(const Parameter& from, int64_t i) {
  i *= from.stride;
  switch (from.dtype) {
    case DType::f64:
      return C(static_cast<const double*>(from.data)[i]);
    case DType::bf16:
      return to<C>(static_cast<const __nv_bfloat16*>(from.data)[i]);
    case DType::f16:
      return to<C>(static_cast<const __half*>(from.data)[i]);
    default:
      return C(static_cast<const float*>(from.data)[i]);
  }
}

template <class C>
__device__ __forceinline__ void store_parameter(const Parameter& into, int64_t i, C value) {
  i *= into.stride;
  switch (into.dtype) {
    case DType::f64:
      static_cast<double*>(into.data)[i] = value;
      return;
    case DType::bf16:
      static_cast<__nv_bfloat16*>(into.data)[i] = from<__nv_bfloat16>(value);
      return;
    case DType::f16:
      static_cast<__half*>(into.data)[i] = from<__half>(value);
      return;
    default:
      static_cast<float*>(into.data)[i] = float(value);
  }
}

template <class C>
__global__ void gather_parameter_kernel(Parameter from, C* to, int64_t width) {
  for (int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; j < width;
       j += int64_t(gridDim.x) * blockDim.x)
    to[j] = load_parameter<C>(from, j);
}

/// A parameter as contiguous numbers of type C, aligned for packs of 16 bytes: the memory itself where that
/// is what it holds, else a copy that lives as long as this object (and the work of its stream).
template <class C>
class ParameterRow {
 public:
  ParameterRow(const Stream& stream, const TensorView& view, int64_t width) {
    if (!view || width == 0) return;
    data_ = static_cast<const C*>(view.data);
    bool aligned = reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
    if (view.dtype == dtype_of<C> && (view.strides[0] == 1 || width == 1) && aligned) return;
    copy_.emplace(stream, size_t(width) * sizeof(C));
    data_ = copy_->template as<C>();
    unsigned blocks = unsigned(std::min<int64_t>(ceil_div(width, int64_t(256)), 1024));
    simt::launch({.name = "gather_parameter", .grid = blocks, .block = 256, .stream = stream},
                 gather_parameter_kernel<C>, Parameter(view), copy_->template as<C>(), width);
  }
  const C* data() const { return data_; }  ///< null for an absent parameter

 private:
  std::optional<Workspace> copy_;
  const C* data_ = nullptr;
};

/// out(j) = sum over i of partials(i, j): partial rows (pieces, stride) from column blockIdx.y * width on. A
/// block of 32 x `slices` threads adds 32 columns: a thread every slices-th piece, in order, then one thread
/// what the threads of its column have.
template <class C>
__global__ void __launch_bounds__(1024) add_pieces_kernel(const C* partials, int64_t pieces, int64_t stride,
                                                          int64_t width, Parameter out0, Parameter out1) {
  REPRISE_SHARED(C, tile, [32][32]);
  const Parameter out = blockIdx.y == 0 ? out0 : out1;
  if (out.data == nullptr) return;
  const int lane = int(threadIdx.x), slice = int(threadIdx.y), slices = int(blockDim.y);
  const int64_t j = int64_t(blockIdx.x) * 32 + lane;
  C sum = 0;
  if (j < width) {
    const C* column = partials + int64_t(blockIdx.y) * width + j;
#pragma unroll 4
    for (int64_t i = slice; i < pieces; i += slices) sum += column[i * stride];
  }
  tile[slice][lane] = sum;
  __syncthreads();
  if (slice != 0 || j >= width) return;
  for (int other = 1; other < slices; ++other) sum += tile[other][lane];
  store_parameter(out, j, sum);
}

/// Writes the sums of partial rows (pieces, outputs, width) to one or two parameters, each optional.
template <class C>
void add_pieces(const Stream& stream, const C* partials, int64_t pieces, int64_t width,
                const TensorView& first, const TensorView* second) {
  if (width == 0) return;
  unsigned outputs = second ? 2 : 1, slices = pieces <= 32 ? 4 : 32;
  dim3 grid(unsigned(ceil_div(width, int64_t(32))), outputs);
  simt::launch({.name = "add_pieces", .grid = grid, .block = dim3(32, slices), .stream = stream},
               add_pieces_kernel<C>, partials, pieces, int64_t(outputs) * width, width, Parameter(first),
               second ? Parameter(*second) : Parameter());
}

}  // namespace reprise::kernels::device
