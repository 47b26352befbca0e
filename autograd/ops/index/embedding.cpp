// Rows of a table.
#include "reprise/kernels/index/embedding.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

// The gradient of the table: rows of dy added at their indices.
struct EmbeddingBackward : Function<EmbeddingBackward> {
  static constexpr const char* name = "embedding_backward";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();

  DType dtype_ = DType::f32;

  /// In `dtype`, that of dy or f32.
  Tensor forward(const Tensor& dy, const Tensor& indices, const Shape& table, DType dtype) {
    save(indices);
    dtype_ = dy.dtype();
    Tensor dweight = Tensor::zeros(table, dtype, dy.device());
    add_rows(dy, indices, dweight);
    return dweight;
  }

  static void add_rows(const Tensor& dy, const Tensor& indices, const Tensor& dweight) {
    kernels::embedding_backward(current_stream(dy.device()), unit_stride(dy).view(), indices, dweight);
  }
  TensorList backward(const TensorList& ddweight) {
    return {embedding(ddweight[0], saved(0), {.out = dtype_}), Tensor()};
  }
};

struct Embedding : Function<Embedding> {
  static constexpr const char* name = "embedding";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::moves();
  Shape table_;
  DType of_table_ = DType::f32;

  Tensor forward(const Tensor& weight, const Tensor& indices, DType out) {
    check(weight.rank() == 2, "embedding: the table must be (V, C), got ", weight.shape());
    check(indices.dtype() == DType::i64, "embedding: indices must be i64 or i32, got ", indices.dtype());
    table_ = weight.shape();
    of_table_ = weight.dtype();
    save(indices);
    Shape shape = indices.shape();
    shape.push_back(weight.size(1));
    Tensor y = Tensor::empty(shape, out, weight.device());
    kernels::embedding(current_stream(weight.device()), weight, indices, y);
    return y;
  }

  // A table tied to the output layer has that layer's gradient already: the few rows are added to it, which
  // saves a table of zeros and a pass over it.
  // Rows that forward widened have the gradient that a cast would have given them.
  TensorList backward(const TensorList& d) {
    const Tensor dy = is_half(of_table_) ? converted(d[0], of_table_) : d[0];
    if (Tensor dweight = GraphTask::take_pending(edges()[0]); dweight.defined()) {
      EmbeddingBackward::add_rows(dy, saved(0), dweight);
      return {dweight, Tensor()};
    }
    MemoryScope memory = gradient_memory(0);
    return {EmbeddingBackward::apply(dy, saved(0), table_, gradient_dtype(0, of_table_)), Tensor()};
  }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, const ResultOptions& result) {
  check_given(Embedding::name, weight);
  if (result.out) check_result_dtype(Embedding::name, weight, *result.out);
  return Embedding::apply(weight, as_i64(indices), result.out.value_or(weight.dtype()));
}

}  // namespace reprise
