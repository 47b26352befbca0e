// Separable maps on the CPU. A line of y is one sum of lines of x, as vectors, and then a sum of few of its numbers
// for each column.
#include "reprise/kernels/image/separable2d.h"

#include "reprise/kernels/cpu/row_access.h"

namespace reprise::kernels {
namespace {

/// SparseRows as pointers.
template <class C>
struct Matrix {
  const int32_t *starts, *sources;
  const C* weights;
  explicit Matrix(const SparseRows& rows)
      : starts(rows.starts.as<int32_t>()),
        sources(rows.sources.as<int32_t>()),
        weights(rows.weights.as<C>()) {}
};

/// sum = line i of rows times the plane x of lines of `width` pixels.
template <int L, class T, class C>
void sum_lines(const T* x, int64_t width, const Matrix<C>& rows, int64_t i, C* sum) {
  using V = simd::Vector<C, L>;
  for_each_vector<L>(width, [&](int64_t j, int64_t left) {
    V total = {};
    for (int32_t k = rows.starts[i]; k < rows.starts[i + 1]; ++k)
      total += simd::load_row<C, L>(x + rows.sources[k] * width + j, left) * rows.weights[k];
    simd::store_row<C, L>(sum + j, total, left);
  });
}

template <class C>
void sum_columns(const C* line, const Matrix<C>& columns, int64_t count, C* y) {
  for (int64_t j = 0; j < count; ++j) {
    C total = 0;
    for (int32_t k = columns.starts[j]; k < columns.starts[j + 1]; ++k)
      total += columns.weights[k] * line[columns.sources[k]];
    y[j] = total;
  }
}

void separable2d_cpu(const Stream&, const TensorView& x, const SparseRows& rows, const SparseRows& columns,
                     const TensorView& y) {
  check_separable2d(x, rows, columns, y);
  const int64_t height = x.size(2), width = x.size(3), lines = y.size(2), count = y.size(3);
  dispatch_floating(x.dtype, "separable2d", [&]<class T>() {
    using C = Accumulator<T>;
    const Matrix<C> along_height(rows), along_width(columns);
    parallel_for(rows_of(y), row_grain(width + count), [&](int64_t begin, int64_t end) {
      std::vector<C> line(static_cast<size_t>(width));
      RowWriter<C> to(y, count);
      simd::run([&]<int W>() {
        constexpr int L = simd::lanes_of<T, W>;
        for (int64_t i = begin; i < end; ++i) {
          sum_lines<L>(x.as<T>() + i / lines * height * width, width, along_height, i % lines, line.data());
          sum_columns(line.data(), along_width, count, to.at(i));
          to.template commit<L>(i);
        }
      });
    });
  });
}

void check_matrix(const char* name, const SparseRows& matrix, int64_t rows, DType dtype) {
  constexpr auto op = "separable2d";
  check_view(op, name, matrix.starts, {rows + 1}, DType::i32);
  check_view(op, name, matrix.sources, matrix.weights.shape, DType::i32);
  check(matrix.weights.rank() == 1 && matrix.weights.dtype == dtype, op, ": weights of ", name, " are ",
        matrix.weights.dtype, " ", matrix.weights.shape, ", should be a list of ", dtype);
  check(matrix.starts.is_contiguous() && matrix.sources.is_contiguous() && matrix.weights.is_contiguous(), op,
        ": ", name, " must be contiguous");
}

}  // namespace

void check_separable2d(const TensorView& x, const SparseRows& rows, const SparseRows& columns,
                       const TensorView& y) {
  constexpr auto op = "separable2d";
  check(x.rank() == 4 && y.rank() == 4 && x.size(0) == y.size(0) && x.size(1) == y.size(1), op, ": images ",
        x.shape, " and ", y.shape, " do not fit");
  check_arithmetic(op, "x", x, x);
  check_arithmetic(op, "y", y, x);
  check(x.is_contiguous() && y.is_contiguous(), op, ": images must be contiguous, have strides ", x.strides,
        " and ", y.strides);
  const DType wide = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  check_matrix("rows", rows, y.size(2), wide);
  check_matrix("columns", columns, y.size(3), wide);
}

decltype(separable2d) separable2d{"separable2d", separable2d_cpu};

}  // namespace reprise::kernels
