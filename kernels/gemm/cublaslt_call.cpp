// cuBLASLt's descriptors, the choice of an algorithm and the call itself.
#include "reprise/kernels/gemm/cublaslt_call.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "reprise/core/cuda/graph.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/gemm/cublaslt_library.h"
#include "reprise/kernels/gemm/matmul_precision.h"

namespace reprise::kernels::vendor {
namespace {

constexpr uint64_t workspace_limit = 32 << 20;  // what NVIDIA recommends for Hopper
constexpr int most_candidates = 8;

const CublasLt& library() { return *cublaslt_library(); }

template <class... Values>
void check_call(cublasStatus_t status, const char* call, const Values&... values) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail("gemm: ", call, ": ", library().status_string(status), " (", library().status_name(status), "); ",
       values...);
}

/// The handle of a device. It lives as long as the process: at its end the driver may be gone already.
cublasLtHandle_t handle_of(int device) {
  static std::mutex mutex;
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device];
  cuda::select_device(device);  // calls with the handle need it too
  if (!handle) check_call(library().create(&handle), "cublasLtCreate", "device ", device);
  return handle;
}

const cuda::BeforeCapture handle_before_capture{[](Device device) {
  if (cublaslt_library()) handle_of(device.index);
}};

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

/// The largest power of two, up to 256, that divides all of the values or'ed together.
uint32_t alignment_of(uint64_t values) {
  values |= 256;
  return uint32_t(values & (~values + 1));
}

/// Everything that the choice of an algorithm depends on: of its epilogue, the family alone.
using Key = std::array<int64_t, 25>;
Key key_of(const CublasCall& call) {
  const auto& [device, types, a, b, c, d, k, batch, family, epilogue, bias, aux, aux_leading, adds] = call;
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
          int64_t(family),
          aux_leading,
          c.data == d.data};
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_call(library().matmul_desc_set(description, attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute", "attribute ", int(attribute));
}

/// The descriptors of a call; they need no memory of their own.
struct Descriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  explicit Descriptors(const CublasCall& call) {
    check_call(
        library().matmul_desc_init(&operation, sizeof(operation), call.types.compute, call.types.scale),
        "cublasLtMatmulDescInit");
    set(&operation, CUBLASLT_MATMUL_DESC_TRANSA, call.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(&operation, CUBLASLT_MATMUL_DESC_TRANSB, call.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue);
    if (call.bias) set(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
    if (call.aux) {
      set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux);
      set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.aux_leading);
    }
    describe(a, call, call.types.factors, call.a);
    describe(b, call, call.types.factors, call.b);
    describe(c, call, call.types.result, call.c);
    describe(d, call, call.types.result, call.d);
  }

 private:
  static void describe(cublasLtMatrixLayoutOpaque_t& layout, const CublasCall& call, cudaDataType_t type,
                       const CublasMatrix& x) {
    check_call(library().matrix_layout_init(&layout, sizeof(layout), type, uint64_t(x.rows),
                                            uint64_t(x.columns), x.leading),
               "cublasLtMatrixLayoutInit", x.rows, " x ", x.columns, ", leading dimension ", x.leading);
    set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(call.batch));
    set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.batch_stride);
  }
  template <class T>
  static void set_layout(cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatrixLayoutAttribute_t attribute,
                         T value) {
    check_call(library().matrix_layout_set(&layout, attribute, &value, sizeof(value)),
               "cublasLtMatrixLayoutSetAttribute", "attribute ", int(attribute), ", value ", value);
  }
};

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_call(library().preference_set(preference, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute", "attribute ", int(attribute));
}

/// What the heuristic proposes for a call, best first.
std::vector<cublasLtMatmulAlgo_t> candidates(const CublasCall& call) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_call(library().preference_init(&preference, sizeof(preference)), "cublasLtMatmulPreferenceInit");
  set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit);
  // Pieces of K are added in f32, not in the output's type.
  set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.a.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, call.b.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, call.c.alignment);
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.d.alignment);
  Descriptors of(call);
  std::array<cublasLtMatmulHeuristicResult_t, most_candidates> results{};
  int found = 0;
  const auto status =
      library().algo_get_heuristic(handle_of(call.device.index), &of.operation, &of.a, &of.b, &of.c, &of.d,
                                   &preference, most_candidates, results.data(), &found);
  // INVALID_VALUE is its word for what it holds for contradictory: nothing that our own code could not compute.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check_call(status, "cublasLtMatmulAlgoGetHeuristic", call.d.columns, " x ", call.d.rows, " x ", call.k);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i)
    if (results[size_t(i)].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[size_t(i)].algo);
  return algorithms;
}

/// The bytes of workspace with which the algorithm runs the call; nothing if it does not.
std::optional<size_t> workspace_of(const CublasCall& call, const cublasLtMatmulAlgo_t& algorithm) {
  Descriptors of(call);
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = library().algo_check(handle_of(call.device.index), &of.operation, &of.a, &of.b, &of.c,
                                           &of.d, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_limit) return {};
  return result.workspaceSize;
}

/// The epilogues of a family, the one that writes most first.
std::vector<cublasLtEpilogue_t> epilogues_of(Family family) {
  switch (family) {
    case Family::plain:
      return {CUBLASLT_EPILOGUE_DEFAULT};
    case Family::bias:
      return {CUBLASLT_EPILOGUE_BIAS};
    case Family::gelu:
      return {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_DEFAULT};
    case Family::gelu_bias:
      return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_BIAS};
    case Family::dgelu:
      return {CUBLASLT_EPILOGUE_DGELU};
  }
  throw Bug("gemm: no such family of epilogues");
}

/// The call with another epilogue of its family, to ask about: pointers are read for their alignment alone, so these have
/// the least that such a call may have, whoever asks first.
CublasCall with_epilogue(CublasCall call, cublasLtEpilogue_t epilogue) {
  constexpr int aux_bit = CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU;
  const bool has_aux = epilogue & aux_bit;
  if (has_aux && !call.aux) call.aux_leading = call.d.rows;
  if (!has_aux) call.aux_leading = 0;
  void* const least_aligned = reinterpret_cast<void*>(uintptr_t(16));
  call.aux = has_aux ? least_aligned : nullptr;
  if (call.bias) call.bias = least_aligned;
  call.epilogue = epilogue;
  return call;
}

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;  ///< the most that a call of the family needs
};

/// Note [One algorithm for a product]. `call` has the first epilogue of its family.
std::optional<Algorithm> choose_algorithm(const CublasCall& call) {
  const std::vector<cublasLtEpilogue_t> family = epilogues_of(call.family);
  for (const cublasLtMatmulAlgo_t& algorithm : candidates(call)) {
    size_t most = 0;
    const bool runs_all = std::all_of(family.begin(), family.end(), [&](cublasLtEpilogue_t epilogue) {
      const auto bytes = workspace_of(with_epilogue(call, epilogue), algorithm);
      most = std::max(most, bytes.value_or(0));
      return bytes.has_value();
    });
    if (runs_all) return Algorithm{algorithm, most};
  }
  return {};
}

/// The algorithm for a call, chosen once; nothing if there is none.
std::optional<Algorithm> algorithm_of(const CublasCall& asked) {
  const CublasCall call = with_epilogue(asked, epilogues_of(asked.family).front());
  static std::mutex mutex;
  static auto& known = *new std::map<Key, std::optional<Algorithm>>;
  std::lock_guard lock(mutex);
  const Key key = key_of(call);
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, choose_algorithm(call)).first;
  return at->second;
}

}  // namespace

CublasTypes cublas_types(DType factors, DType result) {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (factors == DType::f64) compute = CUBLAS_COMPUTE_64F;
  if (factors == DType::f32 && matmul_precision() == MatmulPrecision::high)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return {type_of(factors), type_of(result), compute, factors == DType::f64 ? CUDA_R_64F : CUDA_R_32F};
}

std::optional<CublasMatrix> cublas_matrix(const TensorView& x) {
  CublasMatrix matrix{.data = x.data};
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

bool run_cublaslt(const Stream& stream, const CublasCall& call) {
  const std::optional<Algorithm> chosen = algorithm_of(call);
  if (!chosen) return false;
  Descriptors of(call);
  device::Workspace workspace(stream, chosen->workspace_bytes);
  const bool wide = call.types.scale == CUDA_R_64F;
  const double wide_alpha = 1, wide_beta = call.adds ? 1 : 0;
  const float alpha = 1, beta = call.adds ? 1 : 0;
  const cublasStatus_t status = library().matmul(
      handle_of(call.device.index), &of.operation, wide ? static_cast<const void*>(&wide_alpha) : &alpha,
      call.a.data, &of.a, call.b.data, &of.b, wide ? static_cast<const void*>(&wide_beta) : &beta,
      call.c.data, &of.c, call.d.data, &of.d, &chosen->algorithm, workspace.as<void>(),
      chosen->workspace_bytes, static_cast<cudaStream_t>(stream.handle()));
  check_call(status, "cublasLtMatmul", "C (", call.d.columns, ", ", call.d.rows, "), K ", call.k, ", batch ",
             call.batch, ", epilogue ", int(call.epilogue));
  return true;
}

}  // namespace reprise::kernels::vendor
