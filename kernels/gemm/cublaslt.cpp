// Matrix products by cuBLASLt: which part of the epilogue it takes, the descriptors, and the algorithm, asked
// for once per kind of product.
//
// Note [Rows and columns]. cuBLASLt stores columns side by side, we rows. Our C (M, N) is its C^T (N, M), and
// C^T = B^T A^T: so its A is our B, its B our A, its rows our columns. A bias, one value for each of its
// rows, is one for each of our columns; the sums of its B over K (BGRADB), one for each of its columns, are
// those of our A, one for each of our rows.
#include "reprise/kernels/gemm/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/gemm/backend.h"
#include "reprise/kernels/gemm/finish.h"

namespace reprise::kernels::vendor {
namespace {

using gemm_detail::Operands;

constexpr uint64_t workspace_limit = 32 << 20;  // what NVIDIA recommends for Hopper

template <class... Values>
void check_call(cublasStatus_t status, const char* call, const Values&... values) {
  check(status == CUBLAS_STATUS_SUCCESS, "gemm: ", call, ": ", cublasLtGetStatusString(status), " (",
        cublasLtGetStatusName(status), "); ", values...);
}

/// The handle of a device. It lives as long as the process: at its end the driver may be gone already.
cublasLtHandle_t handle_of(int device) {
  static std::mutex mutex;
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device];
  cuda::select_device(device);  // calls with the handle need it too
  if (!handle) check_call(cublasLtCreate(&handle), "cublasLtCreate", "device ", device);
  return handle;
}

const cuda::BeforeCapture handle_before_capture{[](Device device) { handle_of(device.index); }};

struct Types {
  cudaDataType_t factors, result;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Bug("gemm: no cuBLASLt type for this dtype");
  }
}

Types types_of(DType factors, DType result) {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (factors == DType::f64) compute = CUBLAS_COMPUTE_64F;
  if (factors == DType::f32 && tf32_allowed()) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return {type_of(factors), type_of(result), compute, factors == DType::f64 ? CUDA_R_64F : CUDA_R_32F};
}

/// A matrix as cuBLASLt sees it: `rows` side by side in memory, then the next column.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;  ///< it is to be used as its transpose
  int64_t batch_stride = 0;
  uint32_t alignment = 256;  ///< bytes, a power of two up to 256, of every matrix of the batch
};

/// The largest power of two, up to 256, that divides all of the values or'ed together.
uint32_t alignment_of(uint64_t values) {
  values |= 256;
  return uint32_t(values & (~values + 1));
}

/// Our (rows, columns) of x, so cuBLASLt's (columns, rows), as they lie or as the transpose of what lies
/// there. Nothing if neither dimension has stride 1.
std::optional<Matrix> matrix_of(const TensorView& x) {
  Matrix matrix{.data = x.data};
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const int64_t by_rows = rows == 1 ? columns : x.stride(-2), by_columns = columns == 1 ? rows : x.stride(-1);
  if ((x.stride(-1) == 1 || columns == 1) && by_rows >= columns) {
    matrix.rows = columns, matrix.columns = rows, matrix.leading = by_rows;
  } else if ((x.stride(-2) == 1 || rows == 1) && by_columns >= rows) {
    matrix.rows = rows, matrix.columns = columns, matrix.leading = by_columns;
    matrix.transposed = true;
  } else {
    return {};
  }
  uint64_t bits = reinterpret_cast<uintptr_t>(x.data);
  for (int dim = 0; dim + 2 < x.rank(); ++dim)
    if (x.size(dim) > 1) bits |= uint64_t(x.stride(dim)) * size_of(x.dtype);
  matrix.alignment = alignment_of(bits);
  if (x.rank() > 2 && x.size(-3) > 1) matrix.batch_stride = x.stride(-3);
  return matrix;
}

/// What cuBLASLt does: D = fused(A B + addend). The rest is left to finish_gemm.
struct Split {
  cublasLtEpilogue_t fused = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  ///< or where its gradient is written
  TensorView aux{};            ///< the pre-activation, written by GELU_AUX, read by DGELU
  TensorView addend{};         ///< absent: nothing is added
  bool finish = false;
};

/// Whether cuBLASLt can use x as the matrix beside the result.
bool fits_aux(const TensorView& x) {
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.stride(-2) % 8 == 0 && x.stride(-2) >= x.size(-1);
}

/// Whether all that an epilogue reads and writes beside C has C's dtype. cuBLASLt knows a bias and an addend of no other
/// (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE in its header).
bool is_of_one_dtype(DType c, const Epilogue& e) {
  for (const TensorView* x :
       {&e.bias, &e.pre_activation, &e.residual, &e.scale, &e.row_scale, &e.dactivation, &e.bias_gradient})
    if (*x && x->dtype != c) return false;
  return true;
}

/// cuBLASLt's GELU is the one by tanh; its ReLU turns NaN into 0, ours does not, so that is left to us.
Split split_epilogue(const Operands& x, const Epilogue& e) {
  const bool half = x.c.dtype == DType::bf16 || x.c.dtype == DType::f16;
  const bool gelu = e.activation == Activation::gelu_tanh && half && x.c.rank() == 2 && !e.accumulate;
  if (e.bias_gradient) return {.fused = CUBLASLT_EPILOGUE_BGRADB, .bias = e.bias_gradient.data};
  if (!is_of_one_dtype(x.c.dtype, e)) return {.finish = true};
  if (e.dactivation) {
    if (gelu && fits_aux(x.dactivation) && x.dactivation.data != x.c.data)
      return {.fused = CUBLASLT_EPILOGUE_DGELU, .aux = x.dactivation};
    return {.finish = true};
  }
  if (e.scale || e.row_scale || (e.bias && x.c.dtype == DType::f64)) return {.finish = true};
  const void* bias = e.bias.data;
  if (gelu && !e.residual && (!e.pre_activation || fits_aux(x.pre_activation))) {
    const int fused = CUBLASLT_EPILOGUE_GELU | (bias ? CUBLASLT_EPILOGUE_BIAS : 0) |
                      (e.pre_activation ? CUBLASLT_EPILOGUE_GELU_AUX : 0);
    return {.fused = cublasLtEpilogue_t(fused), .bias = bias, .aux = x.pre_activation};
  }
  if (e.activation != Activation::none || e.pre_activation || (e.residual && e.accumulate))
    return {.finish = true};
  return {.fused = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
          .bias = bias,
          .addend = e.accumulate ? x.c : x.residual};
}

/// One call of cublasLtMatmul in its own words.
struct Call {
  Device device;
  Types types;
  Matrix a, b, c, d;
  int64_t k, batch;
  Split split;

  /// Everything that the choice of an algorithm depends on.
  using Key = std::array<int64_t, 26>;
  Key key() const {
    const int64_t aux_stride = split.aux ? split.aux.stride(-2) : 0;
    const int64_t bias_alignment = alignment_of(reinterpret_cast<uintptr_t>(split.bias));
    return {device.index,
            types.factors,
            types.result,
            types.compute,
            d.rows,
            d.columns,
            k,
            batch,
            a.leading,
            b.leading,
            c.leading,
            d.leading,
            a.batch_stride,
            b.batch_stride,
            c.batch_stride,
            d.batch_stride,
            a.transposed,
            b.transposed,
            a.alignment,
            b.alignment,
            c.alignment,
            d.alignment,
            split.fused,
            bias_alignment,
            aux_stride,
            c.data == d.data};
  }
};

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_call(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute", "attribute ", int(attribute));
}

/// The descriptors of a call; they need no memory of their own.
struct Descriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  explicit Descriptors(const Call& call) {
    check_call(cublasLtMatmulDescInit(&operation, call.types.compute, call.types.scale),
               "cublasLtMatmulDescInit");
    set(&operation, CUBLASLT_MATMUL_DESC_TRANSA, call.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(&operation, CUBLASLT_MATMUL_DESC_TRANSB, call.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE, call.split.fused);
    if (call.split.bias) set(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.split.bias);
    if (call.split.aux) {
      set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.split.aux.data);
      set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.split.aux.stride(-2));
    }
    describe(a, call, call.types.factors, call.a);
    describe(b, call, call.types.factors, call.b);
    describe(c, call, call.types.result, call.c);
    describe(d, call, call.types.result, call.d);
  }

 private:
  static void describe(cublasLtMatrixLayoutOpaque_t& layout, const Call& call, cudaDataType_t type,
                       const Matrix& x) {
    check_call(cublasLtMatrixLayoutInit(&layout, type, uint64_t(x.rows), uint64_t(x.columns), x.leading),
               "cublasLtMatrixLayoutInit", x.rows, " x ", x.columns, ", leading dimension ", x.leading);
    const int32_t batch = int32_t(call.batch);
    check_call(
        cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
        "cublasLtMatrixLayoutSetAttribute", "batch ", batch);
    check_call(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &x.batch_stride, sizeof(x.batch_stride)),
               "cublasLtMatrixLayoutSetAttribute", "batch stride ", x.batch_stride);
  }
};

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_call(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute", "attribute ", int(attribute));
}

std::optional<Algorithm> ask_algorithm(const Call& call, Descriptors& of) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_call(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
  // Pieces of K are added in f32, not in the output's type.
  set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.a.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, call.b.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, call.c.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.d.alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(handle_of(call.device.index), &of.operation, &of.a,
                                                     &of.b, &of.c, &of.d, &preference, 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) return {};
  check_call(status, "cublasLtMatmulAlgoGetHeuristic", call.d.columns, " x ", call.d.rows, " x ", call.k);
  if (result.state != CUBLAS_STATUS_SUCCESS) return {};
  return Algorithm{result.algo, result.workspaceSize};
}

/// The algorithm for a call, asked for once; nothing if there is none.
std::optional<Algorithm> algorithm_of(const Call& call, Descriptors& descriptors) {
  static std::mutex mutex;
  static auto& known = *new std::map<Call::Key, std::optional<Algorithm>>;
  std::lock_guard lock(mutex);
  const Call::Key key = call.key();
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, ask_algorithm(call, descriptors)).first;
  return at->second;
}

bool run(const Stream& stream, const Call& call) {
  Descriptors of(call);
  const std::optional<Algorithm> chosen = algorithm_of(call, of);
  if (!chosen) return false;
  device::Workspace workspace(stream, chosen->workspace_bytes);
  const bool wide = call.types.scale == CUDA_R_64F, adds = bool(call.split.addend);
  const double wide_alpha = 1, wide_beta = adds ? 1 : 0;
  const float alpha = 1, beta = adds ? 1 : 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_of(call.device.index), &of.operation, wide ? static_cast<const void*>(&wide_alpha) : &alpha,
      call.a.data, &of.a, call.b.data, &of.b, wide ? static_cast<const void*>(&wide_beta) : &beta,
      call.c.data, &of.c, call.d.data, &of.d, &chosen->algorithm, workspace.as<void>(),
      chosen->workspace_bytes, static_cast<cudaStream_t>(stream.handle()));
  check_call(status, "cublasLtMatmul", "C (", call.d.columns, ", ", call.d.rows, "), K ", call.k, ", batch ",
             call.batch, ", epilogue ", int(call.split.fused));
  return true;
}

/// The matrices of x at place `index` of its outer batch dimensions.
TensorView at_outer(TensorView x, int64_t index) {
  if (!x) return x;
  int64_t offset = 0;
  for (int dim = x.rank() - 4; dim >= 0; --dim) {
    offset += index % x.shape[dim] * x.strides[dim];
    index /= x.shape[dim];
  }
  x.data = static_cast<std::byte*>(x.data) + offset * int64_t(size_of(x.dtype));
  return x;
}

/// `to` = fused(A B + addend). The innermost batch dimension is cuBLASLt's, the others are taken in turn.
bool multiply(const Stream& stream, const Operands& x, const TensorView& to, const Split& split) {
  const int64_t batch = to.rank() > 2 ? to.size(-3) : 1;
  const int64_t calls = to.numel() / (to.size(-2) * to.size(-1) * batch);
  if (batch > 0x7fffffff) return false;
  for (int64_t i = 0; i < calls; ++i) {
    const TensorView result = at_outer(to, i);
    const auto a = matrix_of(at_outer(x.b, i)), b = matrix_of(at_outer(x.a, i)), d = matrix_of(result);
    const auto c = split.addend ? matrix_of(at_outer(split.addend, i)) : d;
    if (!a || !b || !c || !d || c->transposed || d->transposed) return false;
    if (batch > 1 && (c->batch_stride == 0 || d->batch_stride == 0)) return false;
    const Call call{to.device, types_of(x.a.dtype, to.dtype), *a, *b, *c, *d, x.a.size(-1), batch, split};
    if (run(stream, call)) continue;
    invariant(i == 0, "gemm: cuBLASLt took a part of a batch");
    return false;
  }
  return true;
}

}  // namespace

bool cublaslt_gemm(const Stream& stream, const Operands& x, const Epilogue& epilogue) {
  const bool one_dtype = is_of_one_dtype(x.c.dtype, epilogue);
  if (epilogue.bias_gradient && (x.c.dtype == DType::f64 || !one_dtype)) return false;
  const Split split = split_epilogue(x, epilogue);
  if (!split.finish && multiply(stream, x, x.c, split)) return true;
  if (epilogue.bias_gradient) return false;
  // The product alone, then our own epilogue. What that reads must not be overwritten by the product; and with tensors
  // of f32 beside 16-bit ones the sums stay in f32.
  TensorView sums = x.c;
  if (!one_dtype) sums.dtype = DType::f32;
  sums.strides = contiguous_strides(sums.shape);
  const bool apart = x.residual || x.dactivation || epilogue.accumulate || sums.dtype != x.c.dtype;
  device::Workspace scratch(stream, apart ? size_t(sums.numel()) * size_of(sums.dtype) : 0);
  if (apart)
    sums.data = scratch.as<void>();
  else
    sums = x.c;
  if (!multiply(stream, x, sums, {})) return false;
  finish_gemm(stream, sums, x, epilogue);
  return true;
}

}  // namespace reprise::kernels::vendor
