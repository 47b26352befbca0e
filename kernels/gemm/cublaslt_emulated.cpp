// The model of cuBLASLt: descriptors, the rules of its documentation, algorithms. The products themselves are in
// cublaslt_emulated_product.cpp.
//
// Source of the rules: the table of types and epilogues of cublasLtMatmul() in NVIDIA's cuBLAS documentation, and the
// comments of cublasLt.h on each attribute. Where these leave a combination open, the model refuses it.
#include "reprise/kernels/gemm/cublaslt_emulated.h"

#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "reprise/core/cuda/emulated_memory.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/error.h"
#include "reprise/kernels/gemm/cublaslt_emulated_product.h"
#include "reprise/kernels/gemm/cublaslt_library.h"

namespace reprise::kernels {
namespace emulated {
namespace {

using Status = cublasStatus_t;
constexpr Status ok = CUBLAS_STATUS_SUCCESS, invalid = CUBLAS_STATUS_INVALID_VALUE,
                 unsupported = CUBLAS_STATUS_NOT_SUPPORTED;

std::atomic<int64_t> calls{0};
thread_local CublasLtRecord* record = nullptr;

CublasLtModel model_from_environment() {
  const char* text = std::getenv("REPRISE_EMULATOR_CUBLASLT");
  const std::string_view name = text ? text : "none";
  if (name == "none") return CublasLtModel::none;
  if (name == "plain") return CublasLtModel::plain;
  check(name == "unkind", "REPRISE_EMULATOR_CUBLASLT: needs none, plain or unkind, got '", name, "'");
  return CublasLtModel::unkind;
}

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of A, B, C, D
};

struct Algorithm {
  static constexpr uint32_t magic_number = 0x6c74;
  uint32_t magic = magic_number;
  uint32_t epilogue = 0;  ///< the only one that it runs; 0: all
  uint32_t pieces = 1;    ///< of K, each summed by itself
  uint32_t alignments[4]{};
  cudaDataType_t result{};
};

/// The library's descriptors are places for state of its own.
template <class State, class Place>
State state_of(const Place* place) {
  static_assert(sizeof(State) <= sizeof(Place));
  State state;
  std::memcpy(static_cast<void*>(&state), place, sizeof(State));
  return state;
}
template <class State, class Place>
void keep(const State& state, Place* place) {
  static_assert(sizeof(State) <= sizeof(Place) && std::is_trivially_copyable_v<State>);
  std::memset(static_cast<void*>(place), 0xff, sizeof(Place));
  std::memcpy(static_cast<void*>(place), &state, sizeof(State));
}

/// An attribute's value has the documented size, or it is not taken.
template <class T>
Status take(T& to, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return invalid;
  std::memcpy(static_cast<void*>(&to), value, bytes);
  return ok;
}

Status create(cublasLtHandle_t* handle) {
  static int one;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return ok;
}

const char* status_name(Status status) {
  switch (status) {
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS";
  }
}

Status matmul_desc_init(cublasLtMatmulDesc_t desc, size_t bytes, cublasComputeType_t compute,
                        cudaDataType_t scale) {
  if (bytes != sizeof(*desc)) return CUBLAS_STATUS_ALLOC_FAILED;
  keep(Operation{.compute = compute, .scale = scale}, desc);
  return ok;
}

Status matmul_desc_set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void* value,
                       size_t bytes) {
  auto operation = state_of<Operation>(desc);
  Status status = invalid;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) status = take(operation.transpose_a, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) status = take(operation.transpose_b, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) status = take(operation.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) status = take(operation.bias, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) status = take(operation.aux, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) status = take(operation.aux_leading, value, bytes);
  if (status == ok) keep(operation, desc);
  return status;
}

Status matrix_layout_init(cublasLtMatrixLayout_t layout, size_t bytes, cudaDataType type, uint64_t rows,
                          uint64_t columns, int64_t leading) {
  if (bytes != sizeof(*layout)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (rows == 0 || columns == 0 || leading < int64_t(rows)) return invalid;
  keep(Layout{.type = type, .rows = int64_t(rows), .columns = int64_t(columns), .leading = leading}, layout);
  return ok;
}

Status matrix_layout_set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                         const void* value, size_t bytes) {
  auto matrix = state_of<Layout>(layout);
  Status status = invalid;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) status = take(matrix.batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    status = take(matrix.batch_stride, value, bytes);
  if (status == ok) keep(matrix, layout);
  return status;
}

Status preference_init(cublasLtMatmulPreference_t preference, size_t bytes) {
  if (bytes != sizeof(*preference)) return CUBLAS_STATUS_ALLOC_FAILED;
  keep(Preference{}, preference);
  return ok;
}

Status preference_set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      const void* value, size_t bytes) {
  auto wish = state_of<Preference>(preference);
  Status status = invalid;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    status = take(wish.workspace_bytes, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) status = take(wish.reductions, value, bytes);
  for (int i = 0; i < 4; ++i)
    if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i)
      status = take(wish.alignments[i], value, bytes);
  if (status == ok) keep(wish, preference);
  return status;
}

bool is_half(cudaDataType_t type) { return type == CUDA_R_16BF || type == CUDA_R_16F; }

/// The rows of the table of types that Reprise may ask for.
bool are_types_supported(const Product& p) {
  const cudaDataType_t factor = p.a.type, result = p.d.type;
  if (p.b.type != factor || p.c.type != result) return false;
  switch (p.operation.compute) {
    case CUBLAS_COMPUTE_64F:
      return p.operation.scale == CUDA_R_64F && factor == CUDA_R_64F && result == CUDA_R_64F;
    case CUBLAS_COMPUTE_32F:
      return p.operation.scale == CUDA_R_32F &&
             (factor == CUDA_R_32F ? result == CUDA_R_32F
                                   : is_half(factor) && (result == factor || result == CUDA_R_32F));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return p.operation.scale == CUDA_R_32F && factor == CUDA_R_32F && result == CUDA_R_32F;
    default:
      return false;
  }
}

bool is_multiple(const void* pointer, uint32_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

Status check_epilogue(const Product& p) {
  const Operation& o = p.operation;
  if (o.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return ok;
  if (p.d.type == CUDA_R_64F) return unsupported;
  const uint32_t known[] = {CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_GELU,
                            CUBLASLT_EPILOGUE_GELU_BIAS,     CUBLASLT_EPILOGUE_GELU_AUX,
                            CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU};
  if (std::find(std::begin(known), std::end(known), o.epilogue) == std::end(known)) return invalid;
  if (o.takes_bias()) {
    if (!o.bias) return invalid;
    if (!is_multiple(o.bias, 16)) return unsupported;
  }
  if (o.has_aux()) {
    if (!o.aux || o.aux_leading % 8 != 0 || o.aux_leading < p.d.rows) return invalid;
    if (!is_multiple(o.aux, 16) || !is_half(p.d.type)) return unsupported;
  }
  return p.d.batch > 1 && o.has_aux() ? unsupported : ok;
}

Status check_product(const Product& p) {
  const auto& [operation, a, b, c, d] = p;
  const bool at = operation.transpose_a != CUBLAS_OP_N, bt = operation.transpose_b != CUBLAS_OP_N;
  if ((at ? a.columns : a.rows) != d.rows || (bt ? b.rows : b.columns) != d.columns ||
      (at ? a.rows : a.columns) != (bt ? b.columns : b.rows) || c.rows != d.rows || c.columns != d.columns)
    return invalid;
  for (const Layout* x : {&b, &c, &d})
    if (x->batch != a.batch || x->batch < 1) return invalid;
  if (d.batch > 1 && d.batch_stride == 0) return invalid;
  if (!are_types_supported(p)) return unsupported;
  return check_epilogue(p);
}

Product product_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {state_of<Operation>(operation), state_of<Layout>(a), state_of<Layout>(b), state_of<Layout>(c),
          state_of<Layout>(d)};
}

size_t workspace_bytes(const Algorithm& algorithm) {
  return algorithm.pieces > 1 ? 256 * size_t(algorithm.pieces) : 0;
}

/// Algorithm `index` of those that the heuristic proposes: see CublasLtModel.
Algorithm propose(const Product& p, const Preference& wish, int index) {
  Algorithm algorithm;
  algorithm.result = p.d.type;
  std::copy(std::begin(wish.alignments), std::end(wish.alignments), algorithm.alignments);
  if (cublaslt_model() == CublasLtModel::plain) return algorithm;
  algorithm.pieces = 2 + uint32_t(index) + p.operation.epilogue % 11 + 2 * (p.d.type == CUDA_R_32F);
  // Products of an odd number of columns have no algorithm that runs every epilogue.
  if (index == 0 || p.d.columns % 2 != 0) algorithm.epilogue = p.operation.epilogue;
  return algorithm;
}

Status algo_get_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                          cublasLtMatmulPreference_t preference, int wanted,
                          cublasLtMatmulHeuristicResult_t results[], int* found) {
  const Product p = product_of(operation, a, b, c, d);
  const auto wish = state_of<Preference>(preference);
  *found = 0;
  if (const Status status = check_product(p); status != ok) return status;
  const bool unkind = cublaslt_model() == CublasLtModel::unkind;
  if (unkind && p.depth() == 1) return invalid;
  if (wish.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return invalid;
  for (int i = 0; i < std::min(wanted, unkind ? 2 : 1); ++i) {
    const Algorithm algorithm = propose(p, wish, i);
    const size_t bytes = workspace_bytes(algorithm);
    if (bytes > wish.workspace_bytes) continue;
    keep(algorithm, &results[i].algo);
    results[i].workspaceSize = bytes;
    results[i].state = ok;
    ++*found;
  }
  return *found > 0 ? ok : unsupported;
}

Status check_algorithm(const Product& p, const Algorithm& algorithm) {
  if (algorithm.magic != Algorithm::magic_number || algorithm.result != p.d.type) return invalid;
  if (const Status status = check_product(p); status != ok) return status;
  return algorithm.epilogue == 0 || algorithm.epilogue == p.operation.epilogue ? ok : unsupported;
}

Status algo_check(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                  const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  const Product p = product_of(operation, a, b, c, d);
  const auto algorithm = state_of<Algorithm>(algo);
  result->workspaceSize = workspace_bytes(algorithm);
  return result->state = check_algorithm(p, algorithm);
}

bool is_on_device(const void* data, int64_t elements, cudaDataType_t type) {
  return cuda::emulated::kind_of(data, size_t(elements) * bytes_of(type)) ==
         cuda::emulated::MemoryKind::device;
}

/// Whether all that the call touches is device memory, and aligned as the algorithm was asked for.
Status check_pointers(const Product& p, const Pointers& at, const Algorithm& algorithm, double beta) {
  const std::pair<const void*, const Layout*> matrices[] = {
      {at.a, &p.a}, {at.b, &p.b}, {at.c, &p.c}, {at.d, &p.d}};
  for (int i = 0; i < 4; ++i) {
    if (i == 2 && beta == 0) continue;
    const auto& [data, layout] = matrices[i];
    if (!data || !is_multiple(data, algorithm.alignments[i])) return invalid;
    const size_t step = size_t(layout->batch_stride) * bytes_of(layout->type);
    if (layout->batch > 1 && step % algorithm.alignments[i] != 0) return invalid;
    if (!is_on_device(data, layout->extent(), layout->type)) return invalid;
  }
  if (at.c == at.d && std::memcmp(&p.c, &p.d, sizeof(Layout)) != 0) return invalid;
  const Operation& o = p.operation;
  if (o.takes_bias() && !is_on_device(o.bias, p.d.rows, p.d.type)) return invalid;
  const int64_t aux_extent = (p.d.columns - 1) * o.aux_leading + p.d.rows;
  return o.has_aux() && !is_on_device(o.aux, aux_extent, p.d.type) ? invalid : ok;
}

Status matmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
              size_t bytes, cudaStream_t stream) {
  const Product p = product_of(operation, a_layout, b_layout, c_layout, d_layout);
  const auto algorithm = state_of<Algorithm>(algo);
  if (const Status status = check_algorithm(p, algorithm); status != ok) return status;
  const bool wide = p.operation.scale == CUDA_R_64F;
  auto number = [wide](const void* at) {
    return wide ? *static_cast<const double*>(at) : *static_cast<const float*>(at);
  };
  Pointers at{.a = a, .b = b, .c = c, .d = d, .alpha = number(alpha), .beta = number(beta)};
  const size_t needed = workspace_bytes(algorithm);
  if (bytes < needed || (needed > 0 && !is_on_device(workspace, int64_t(needed / 4), CUDA_R_32F)))
    return invalid;
  if (const Status status = check_pointers(p, at, algorithm, at.beta); status != ok) return status;
  ++calls;
  if (record) record->calls.push_back({p.a.leading, p.b.leading, p.d.leading});
  cuda::emulated::enqueue(stream, [p, at, pieces = algorithm.pieces] { run_product(p, at, int(pieces)); });
  return ok;
}

constexpr vendor::CublasLt model{.create = create,
                                 .status_name = status_name,
                                 .status_string = status_name,
                                 .matmul_desc_init = matmul_desc_init,
                                 .matmul_desc_set = matmul_desc_set,
                                 .matrix_layout_init = matrix_layout_init,
                                 .matrix_layout_set = matrix_layout_set,
                                 .preference_init = preference_init,
                                 .preference_set = preference_set,
                                 .algo_get_heuristic = algo_get_heuristic,
                                 .algo_check = algo_check,
                                 .matmul = matmul};

}  // namespace

CublasLtModel cublaslt_model() {
  static const CublasLtModel one = model_from_environment();
  return one;
}

int64_t cublaslt_calls() { return calls; }

CublasLtRecord::CublasLtRecord() { record = this; }
CublasLtRecord::~CublasLtRecord() { record = nullptr; }

}  // namespace emulated

const vendor::CublasLt* vendor::cublaslt_library() {
  return emulated::cublaslt_model() == emulated::CublasLtModel::none ? nullptr : &emulated::model;
}

}  // namespace reprise::kernels
