// Matrix product, batched and broadcast.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/gemm/linear_kernels.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise {
namespace {

Shape batch_of(const Tensor& x) {
  Shape batch;
  for (int d = 0; d < x.rank() - 2; ++d) batch.push_back(x.shape()[d]);
  return batch;
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

struct Matmul : autograd::Function<Matmul> {
  static constexpr const char* name = "matmul";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr autograd::OpCost cost = autograd::OpCost::product();
  Shape shape_a, shape_b;

  Tensor forward(const Tensor& a, const Tensor& b, std::optional<DType> out) {
    check(a.dtype() == b.dtype(), name, ": dtypes differ: ", a.dtype(), " and ", b.dtype());
    autograd::check_floating(name, a);
    autograd::check_device(name, a, b);
    if (out) autograd::check_result_dtype(name, a, *out);
    save(a, b);
    shape_a = a.shape();
    shape_b = b.shape();
    Shape batch = broadcast_shapes(batch_of(a), batch_of(b), name);
    const Shape shape_c = with_matrix(batch, a.size(-2), b.size(-1));
    const DType dtype = out.value_or(a.dtype());
    const Tensor c = Tensor::empty(shape_c, autograd::product_dtype(dtype, a.dtype()), a.device());
    kernels::gemm(current_stream(a.device()),
                  {.a = expand(a.view(), with_matrix(batch, a.size(-2), a.size(-1))),
                   .b = expand(b.view(), with_matrix(batch, b.size(-2), b.size(-1))),
                   .c = c});
    return autograd::converted(c, dtype);
  }

  TensorList backward(const TensorList& dy) {
    Tensor a = saved(0), b = saved(1), da, db;
    const Tensor d = autograd::converted(dy[0], a.dtype());
    // Of a leaf in f32 that is read in 16 bits the gradient is not rounded, nor are sums over a batch.
    if (needs_grad(0))
      da = sum_to(matmul(d, transpose(b, -2, -1), {.out = gradient_dtype(0, a.dtype())}), shape_a);
    if (needs_grad(1))
      db = sum_to(matmul(transpose(a, -2, -1), d, {.out = gradient_dtype(1, b.dtype())}), shape_b);
    return {da, db};
  }
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const ResultOptions& result) {
  autograd::check_given("matmul", a, b);
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: needs vectors or matrices, got ", a.shape(), " and ",
        b.shape());
  check(a.size(-1) == b.size(b.rank() == 1 ? -1 : -2), "matmul: inner sizes differ: ", a.shape(), " and ",
        b.shape());
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b, result), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1), result), -1);
  if (b.rank() > 2 || a.rank() == 2) return Matmul::apply(a, b, result.out);
  Shape shape = a.shape();  // one matrix b for all of a: a single product of many rows
  shape[a.rank() - 1] = b.size(-1);
  int64_t rows = a.size(-2);
  for (int64_t size : batch_of(a)) rows *= size;
  return reshape(Matmul::apply(reshape(a, {rows, a.size(-1)}), b, result.out), shape);
}

}  // namespace reprise
