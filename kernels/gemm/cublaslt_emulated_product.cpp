// Products on the CPU with the roundings that cuBLASLt documents.
#include "reprise/kernels/gemm/cublaslt_emulated_product.h"

#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <vector>

#include "reprise/core/dtype.h"

namespace reprise::kernels::emulated {
namespace {

DType dtype_of_type(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return DType::f64;
    case CUDA_R_32F:
      return DType::f32;
    case CUDA_R_16BF:
      return DType::bf16;
    case CUDA_R_16F:
      return DType::f16;
    default:
      throw Bug("cuBLASLt's model: a type that its table lacks");
  }
}

template <class C>
C load(cudaDataType_t type, const void* data, int64_t i) {
  return dispatch_floating(dtype_of_type(type), "load",
                           [&]<class T>() { return C(static_cast<const T*>(data)[i]); });
}
template <class C>
void store(cudaDataType_t type, void* data, int64_t i, C value) {
  dispatch_floating(dtype_of_type(type), "store", [&]<class T>() { static_cast<T*>(data)[i] = T(value); });
}

/// Rounded to the 10 bits of mantissa that TF32 has, to nearest even.
float to_tf32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu);
}

/// A matrix of the batch as rows over K, one after the other.
template <class C>
std::vector<C> rows_of(const Layout& x, const void* data, int64_t matrix, bool k_is_column, bool tf32) {
  const int64_t k = k_is_column ? x.columns : x.rows, rows = k_is_column ? x.rows : x.columns;
  std::vector<C> values(size_t(rows * k));
  dispatch_floating(dtype_of_type(x.type), "rows_of", [&]<class T>() {
    const T* from = static_cast<const T*>(data) + matrix * x.batch_stride;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t p = 0; p < k; ++p) {
        C value = C(k_is_column ? from[p * x.leading + row] : from[row * x.leading + p]);
        if (tf32) value = C(to_tf32(float(value)));
        values[size_t(row * k + p)] = value;
      }
  });
  return values;
}

template <class C>
C sum_of_products(const C* a, const C* b, int64_t k, int pieces) {
  C total = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    C sum = 0;
    for (int64_t p = k * piece / pieces; p < k * (piece + 1) / pieces; ++p) sum += a[p] * b[p];
    total += sum;
  }
  return total;
}

constexpr double gelu_scale = 0.79788456080286535588, gelu_cubic = 0.044715;

template <class C>
C gelu(C x) {
  return C(0.5) * x * (1 + std::tanh(C(gelu_scale) * (x + C(gelu_cubic) * x * x * x)));
}
template <class C>
C gelu_slope(C x) {
  const C t = std::tanh(C(gelu_scale) * (x + C(gelu_cubic) * x * x * x));
  return C(0.5) * (1 + t) + C(0.5) * x * (1 - t * t) * C(gelu_scale) * (1 + 3 * C(gelu_cubic) * x * x);
}

/// What the epilogue makes of alpha A B + beta C at (row, column) of D.
template <class C>
C finish(const Product& p, int64_t row, int64_t column, C v) {
  const Operation& o = p.operation;
  const int64_t at_aux = column * o.aux_leading + row;
  if (o.takes_bias()) v += load<C>(p.d.type, o.bias, row);
  if (o.is_dgelu()) return v * gelu_slope(load<C>(p.d.type, o.aux, at_aux));
  if (o.has_aux()) store(p.d.type, o.aux, at_aux, v);
  return o.takes_gelu() ? gelu(v) : v;
}

template <class C>
void run_as(const Product& p, const Pointers& at, int pieces) {
  const Operation& o = p.operation;
  const bool tf32 = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const int64_t k = p.depth();
  for (int64_t matrix = 0; matrix < p.d.batch; ++matrix) {
    const std::vector<C> a = rows_of<C>(p.a, at.a, matrix, o.transpose_a == CUBLAS_OP_N, tf32);
    const std::vector<C> b = rows_of<C>(p.b, at.b, matrix, o.transpose_b != CUBLAS_OP_N, tf32);
    for (int64_t column = 0; column < p.d.columns; ++column) {
      const C* right = b.data() + column * k;
      for (int64_t row = 0; row < p.d.rows; ++row) {
        C v = C(at.alpha) * sum_of_products(a.data() + row * k, right, k, pieces);
        if (at.beta != 0)
          v += C(at.beta) * load<C>(p.c.type, at.c, matrix * p.c.batch_stride + column * p.c.leading + row);
        store(p.d.type, at.d, matrix * p.d.batch_stride + column * p.d.leading + row,
              finish(p, row, column, v));
      }
    }
  }
}

}  // namespace

size_t bytes_of(cudaDataType_t type) { return size_of(dtype_of_type(type)); }

void run_product(const Product& product, const Pointers& at, int pieces) {
  if (product.d.type == CUDA_R_64F) return run_as<double>(product, at, pieces);
  run_as<float>(product, at, pieces);
}

}  // namespace reprise::kernels::emulated
