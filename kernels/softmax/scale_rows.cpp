// Rows times a number each on the CPU.
#include "reprise/kernels/softmax/scale_rows.h"

#include "reprise/kernels/cpu/rows.h"

namespace reprise::kernels {
namespace {

template <class T>
void each_row(const TensorView& x, const TensorView& factors, const TensorView& y) {
  using C = Accumulator<T>;
  const int64_t width = x.size(1);
  parallel_for(x.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
    simd::run([&]<int W>() {
      constexpr int L = simd::lanes_of<T, W>;
      for (int64_t row = begin; row < end; ++row) {
        const C factor = factors.as<C>()[row * factors.stride(0)];
        if (factor == C(1) && x.data == y.data) continue;
        const T* from = row_at<const T>(x, row);
        T* to = row_at<T>(y, row);
        for_each_vector<L>(width, [&](int64_t j, int64_t left) {
          const simd::Vector<C, L> value = simd::load_row<C, L>(from + j, left) * factor;
          simd::store_row<C, L>(to + j, value, left);
        });
      }
    });
  });
}

void scale_rows_cpu(const Stream&, const TensorView& x, const TensorView& factors, const TensorView& y) {
  check_scale_rows(x, factors, y);
  dispatch_floating(x.dtype, "scale_rows", [&]<class T>() { each_row<T>(x, factors, y); });
}

}  // namespace

void check_scale_rows(const TensorView& x, const TensorView& factors, const TensorView& y) {
  check(x.rank() == 2, "scale_rows: x needs shape (N, V), has ", x.shape);
  check_rows("scale_rows", "x", x);
  check_rows("scale_rows", "y", y);
  check_view("scale_rows", "y", y, x.shape, x.dtype);
  check_view("scale_rows", "factors", factors, Shape{x.size(0)},
             x.dtype == DType::f64 ? DType::f64 : DType::f32);
  check(x.data != y.data || x.strides == y.strides, "scale_rows: y is x with other strides: ", x.strides,
        " and ", y.strides);
}

decltype(scale_rows) scale_rows{"scale_rows", scale_rows_cpu};

}  // namespace reprise::kernels
