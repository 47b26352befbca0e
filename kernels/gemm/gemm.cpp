// The CPU's matrix multiply: spreads matrices over the threads.
#include "reprise/kernels/gemm/gemm.h"

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/backend.h"
#include "reprise/kernels/gemm/blas_product.h"
#include "reprise/kernels/gemm/few_rows.h"
#include "reprise/kernels/gemm/matmul_precision.h"
#include "reprise/kernels/gemm/matrix.h"
#include "reprise/kernels/gemm/operands.h"

namespace reprise::kernels {
namespace {

using namespace gemm_detail;

/// Elements from the first matrix of the batch to matrix `index`.
int64_t offset_of_matrix(const TensorView& x, int64_t index) {
  int64_t offset = 0;
  for (int dim = x.rank() - 3; dim >= 0; --dim) {
    offset += index % x.shape[dim] * x.strides[dim];
    index /= x.shape[dim];
  }
  return offset;
}

template <class T>
const T* matrix_at(const TensorView& x, int64_t index) {
  return x ? x.as<T>() + offset_of_matrix(x, index) : nullptr;
}

template <class T>
Rows<T> rows_of(const TensorView& x, int64_t index) {
  if (!x) return {};
  return {Stored<T>(x) + offset_of_matrix(x, index), x.stride(-2)};
}

template <class T>
void multiply_matrix(const Operands& x, const Epilogue& epilogue, int64_t index, MatmulPrecision precision) {
  Output<T> out{.c = rows_of<T>(x.c, index),
                .bias = Stored<T>(epilogue.bias),
                .scale = Stored<T>(epilogue.scale),
                .row_scale = Stored<T>(epilogue.row_scale),
                .sample_rows = sample_rows(x.c, epilogue),
                .pre_activation = rows_of<T>(x.pre_activation, index),
                .residual = rows_of<T>(x.residual, index),
                .dactivation = rows_of<T>(x.dactivation, index),
                .activation = epilogue.applied_activation(),
                .accumulate = epilogue.accumulate};
  PackSource<T> a{matrix_at<T>(x.a, index), x.a.stride(-2), x.a.stride(-1)};
  PackSource<T> b{matrix_at<T>(x.b, index), x.b.stride(-1), x.b.stride(-2)};
  const int64_t m = x.c.size(-2), n = x.c.size(-1), k = x.a.size(-1);
  if (gemm_backend() == GemmBackend::blas && multiply_by_blas(a, b, out, m, n, k)) return;
  if (FewRows::suits(a, b, m, n, k)) return FewRows::multiply(a, b, out, m, n, k);
  out.past_caches = !out.accumulate && simd::is_best_past_caches(m * n * out.c.numbers.size());
  multiply_matrices<T>(a, b, out, m, n, k, precision);
}

/// Threads work on different matrices if there are enough of them to keep all busy, else together on each; a
/// BLAS brings its own threads.
template <class T>
void multiply_batch(const Operands& x, const Epilogue& epilogue) {
  int64_t count = 1;
  for (int dim = 0; dim < x.c.rank() - 2; ++dim) count *= x.c.size(dim);
  const int64_t work = x.c.size(-2) * x.c.size(-1) * std::max<int64_t>(1, x.a.size(-1));
  constexpr int64_t small = 1 << 20, task = 1 << 18;  // multiply-adds
  const bool own = gemm_backend() == GemmBackend::own;
  const MatmulPrecision precision = matmul_precision();
  if (own && count > 1 && (count >= 4 * num_threads() || work <= small)) {
    parallel_for(count, std::max<int64_t>(1, task / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) multiply_matrix<T>(x, epilogue, i, precision);
                 });
  } else {
    for (int64_t i = 0; i < count; ++i) multiply_matrix<T>(x, epilogue, i, precision);
  }
}

void gemm_cpu(const Stream& stream, const GemmArguments& arguments) {
  Operands x = fit_operands(arguments);
  const Epilogue& epilogue = arguments.epilogue;
  if (epilogue.bias_gradient) sum_rows(stream, arguments.a, epilogue.bias_gradient);
  if (x.c.numel() == 0) return;
  join_batches(x);
  dispatch_floating(x.a.dtype, "gemm", [&]<class T>() { multiply_batch<T>(x, epilogue); });
}

}  // namespace

decltype(gemm) gemm{"gemm", gemm_cpu};

}  // namespace reprise::kernels
