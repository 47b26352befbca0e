// The CPU's matrix multiply: checks the operands, joins batch dimensions, and spreads matrices over the
// threads.
#include "reprise/kernels/gemm.h"

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm_backend.h"
#include "reprise/kernels/gemm_blas.h"
#include "reprise/kernels/gemm_matrix.h"

namespace reprise::kernels {
namespace {

using namespace gemm_detail;

/// The operands with A, B and the epilogue's tensors expanded to C's batch dimensions.
struct Operands {
  TensorView a, b, c, pre_activation, residual, dactivation;
};

/// `x` (batch..., rows, columns) with its batch dimensions broadcast to C's. Error if it does not fit.
TensorView fit_to(const TensorView& c, const TensorView& x, const char* what, int64_t rows, int64_t columns) {
  if (x.rank() == 0 && !x) return x;
  check(x.dtype == c.dtype, "gemm: ", what, " is ", x.dtype, " but C is ", c.dtype);
  check(x.rank() >= 2 && x.size(-2) == rows && x.size(-1) == columns, "gemm: ", what, " is ", x.shape,
        ", needs (..., ", rows, ", ", columns, ") for C ", c.shape);
  Shape shape = c.shape;
  shape[c.rank() - 2] = rows;
  shape[c.rank() - 1] = columns;
  check(x.rank() <= c.rank(), "gemm: ", what, " ", x.shape, " has more dimensions than C ", c.shape);
  return expand(x, shape);
}

void check_rows(const TensorView& x, const char* what) {
  check(x.rank() == 0 || x.size(-1) <= 1 || x.stride(-1) == 1, "gemm: the rows of ", what,
        " need stride 1; strides are ", x.strides);
}

Operands fit(const TensorView& a, const TensorView& b, const TensorView& c, const Epilogue& epilogue) {
  check(is_floating(c.dtype), "gemm: needs a floating dtype, got ", c.dtype);
  check(a.rank() >= 2 && b.rank() >= 2 && c.rank() >= 2, "gemm: needs rank 2 or more: A ", a.shape, ", B ",
        b.shape, ", C ", c.shape);
  check(a.size(-1) == b.size(-2), "gemm: inner sizes differ: A ", a.shape, ", B ", b.shape);
  const int64_t m = c.size(-2), n = c.size(-1), k = a.size(-1);
  Operands out{fit_to(c, a, "A", m, k),
               fit_to(c, b, "B", k, n),
               c,
               fit_to(c, epilogue.pre_activation, "pre_activation", m, n),
               fit_to(c, epilogue.residual, "residual", m, n),
               fit_to(c, epilogue.dactivation, "dactivation", m, n)};
  check_rows(c, "C");
  check_rows(out.pre_activation, "pre_activation");
  check_rows(out.residual, "residual");
  check_rows(out.dactivation, "dactivation");
  const TensorView& bias = epilogue.bias;
  if (bias) {
    check(bias.dtype == c.dtype, "gemm: bias is ", bias.dtype, " but C is ", c.dtype);
    check(bias.rank() == 1 && bias.size(0) == n, "gemm: bias is ", bias.shape, ", needs (", n, ",)");
    check(n <= 1 || bias.stride(0) == 1, "gemm: bias needs stride 1; stride is ", bias.strides);
  }
  check(!epilogue.dactivation || (!bias && !epilogue.pre_activation && !epilogue.residual),
        "gemm: dactivation excludes bias, pre_activation and residual");
  return out;
}

/// Removes the batch dimension `dim` of x; with `into_rows`, its elements become further rows.
bool rows_join(const TensorView& x, int dim) {
  return x.rank() == 0 || x.stride(dim) == x.size(-2) * x.stride(-2);
}
void join_rows(TensorView& x, int dim) {
  if (x.rank() == 0) return;
  const int rank = x.rank();
  Shape shape;
  Strides strides;
  for (int d = 0; d < rank; ++d) {
    if (d == dim) continue;
    shape.push_back(d == rank - 2 ? x.shape[d] * x.shape[dim] : x.shape[d]);
    strides.push_back(x.strides[d]);
  }
  x.shape = shape;
  x.strides = strides;
}

/// A batch dimension over which B is the same and all others step evenly is more rows of one larger product.
void join_batches(Operands& x) {
  while (x.c.rank() > 2) {
    const int dim = x.c.rank() - 3;
    const bool size_one = x.c.size(dim) == 1;
    bool joins = size_one || x.b.stride(dim) == 0;
    for (TensorView* view : {&x.a, &x.c, &x.pre_activation, &x.residual, &x.dactivation})
      joins = joins && (size_one || rows_join(*view, dim));
    if (!joins) return;
    for (TensorView* view : {&x.a, &x.c, &x.pre_activation, &x.residual, &x.dactivation})
      join_rows(*view, dim);
    x.b = select(x.b, dim, 0);
  }
}

/// The first element of matrix `index` of the batch.
template <class T>
T* matrix_at(const TensorView& x, int64_t index) {
  if (!x) return nullptr;
  T* data = x.as<std::remove_const_t<T>>();
  for (int dim = x.rank() - 3; dim >= 0; --dim) {
    data += index % x.shape[dim] * x.strides[dim];
    index /= x.shape[dim];
  }
  return data;
}

template <class T>
Rows<T> rows_of(const TensorView& x, int64_t index) {
  return {matrix_at<T>(x, index), x ? x.stride(-2) : 0};
}

template <class T>
void multiply_matrix(const Operands& x, const Epilogue& epilogue, int64_t index) {
  Output<T> out{.c = rows_of<T>(x.c, index),
                .bias = epilogue.bias ? epilogue.bias.as<T>() : nullptr,
                .pre_activation = rows_of<T>(x.pre_activation, index),
                .residual = rows_of<const T>(x.residual, index),
                .dactivation = rows_of<const T>(x.dactivation, index),
                .activation = epilogue.activation,
                .accumulate = epilogue.accumulate};
  PackSource<T> a{matrix_at<const T>(x.a, index), x.a.stride(-2), x.a.stride(-1)};
  PackSource<T> b{matrix_at<const T>(x.b, index), x.b.stride(-1), x.b.stride(-2)};
  const int64_t m = x.c.size(-2), n = x.c.size(-1), k = x.a.size(-1);
  if (gemm_backend() == GemmBackend::blas && multiply_by_blas(a, b, out, m, n, k)) return;
  MatrixMultiply<T>(a, b, out, m, n, k).run();
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
  if (own && count > 1 && (count >= 4 * num_threads() || work <= small)) {
    parallel_for(count, std::max<int64_t>(1, task / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) multiply_matrix<T>(x, epilogue, i);
                 });
  } else {
    for (int64_t i = 0; i < count; ++i) multiply_matrix<T>(x, epilogue, i);
  }
}

void gemm_cpu(const Stream&, const TensorView& a, const TensorView& b, const TensorView& c,
              const Epilogue& epilogue) {
  Operands x = fit(a, b, c, epilogue);
  if (c.numel() == 0) return;
  join_batches(x);
  dispatch_floating(c.dtype, "gemm", [&]<class T>() { multiply_batch<T>(x, epilogue); });
}

}  // namespace

Kernel<void(const TensorView& a, const TensorView& b, const TensorView& c, const Epilogue& epilogue)> gemm{
    "gemm", gemm_cpu};

}  // namespace reprise::kernels
