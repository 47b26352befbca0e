// Views for tests of the kernels that work row by row: rows contiguous, everything else unusual; and the
// check that the number of threads leaves no trace.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/cuda/cuts.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {

enum class RowLayout { contiguous, padded, transposed };
inline constexpr RowLayout row_layouts[] = {RowLayout::contiguous, RowLayout::padded, RowLayout::transposed};

/// An array whose rows have stride 1. `padded` rows start at odd addresses with gaps between them;
/// `transposed` has its first two dimensions swapped in memory besides, where there are three.
class RowArray {
 public:
  RowArray(const Shape& shape, DType dtype, RowLayout layout = RowLayout::contiguous)
      : array_(stored(shape, layout), dtype), view_(array_.view()) {
    if (layout == RowLayout::contiguous) return;
    view_ = slice(view_, -1, 1, view_.size(-1) - 2);
    if (layout == RowLayout::transposed && shape.size() >= 3) view_ = transpose(view_, 0, 1);
  }
  const TensorView& view() const { return view_; }
  std::vector<double> values() const { return values_of(view_); }
  RowArray& randomize(uint64_t seed, double low = -4, double high = 4) {
    array_.randomize(seed, low, high);
    return *this;
  }
  /// Sets every element, also those between the rows, to `value`.
  RowArray& fill(double value) {
    array_.fill_with([=](int64_t) { return value; });
    return *this;
  }
  /// Whether all elements between the rows hold `value`.
  bool gaps_hold(double value) const {
    std::vector<double> all = array_.values();
    size_t differing = 0, inside = 0;
    for (double v : all) differing += v != value;
    for (double v : values()) inside += v != value;
    return differing == inside && array_.surroundings_untouched();
  }

 private:
  static Shape stored(Shape shape, RowLayout layout) {
    if (layout == RowLayout::contiguous) return shape;
    shape[shape.size() - 1] += 3;
    if (layout == RowLayout::transposed && shape.size() >= 3) std::swap(shape[0], shape[1]);
    return shape;
  }
  Array array_;
  TensorView view_;
};

/// Odd widths around the vector widths, ranks 1 to 4, enough rows for many tasks, and none.
inline const std::vector<Shape>& row_shapes() {
  static const std::vector<Shape> shapes = {
      {1}, {5}, {65}, {3, 5}, {7, 65}, {3, 5, 7}, {2, 3, 5, 129}, {67, 17}, {3, 49, 9}, {0, 5}, {3, 0, 7}};
  return shapes;
}

/// A width on either side of each at which the CUDA kernels cut a row in another way: rows that 16-byte packs
/// of half types fit, and wide ones that they do not.
inline const std::vector<Shape>& cut_shapes() {
  static const std::vector<Shape> shapes = [] {
    std::vector<Shape> result{{21, 8}, {5, kWidestWarpRow + 7}, {2, 3, kWidestWarpRow + 576}};
    for (int64_t width : kWarpRows) result.insert(result.end(), {{5, width}, {3, width + 8}});
    for (int64_t columns : {kGradientColumns, kRowColumns})
      for (int64_t more : {0, 7, 8}) result.push_back({more == 0 ? 2 : 1, kRowThreads * columns + more});
    return result;
  }();
  return shapes;
}
#if defined(__SANITIZE_THREAD__)  // dtypes that threads share alike are left out
inline constexpr DType packed_dtypes[] = {DType::bf16};
inline constexpr DType floating_dtypes[] = {DType::f32, DType::bf16};
#else
inline constexpr DType packed_dtypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr DType floating_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
#endif

inline Shape leading(const Shape& shape) {
  Shape result;
  for (int i = 0; i + 1 < shape.size(); ++i) result.push_back(shape[i]);
  return result;
}

inline DType accumulator_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Expects `run` to return the same numbers, bit for bit, at 1, 2 and 4 threads.
inline void expect_same_at_any_thread_count(const std::function<std::vector<double>()>& run) {
  int before = num_threads();
  set_num_threads(1);
  std::vector<double> want = run();
  for (int threads : {2, 4}) {
    set_num_threads(threads);
    std::vector<double> got = run();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << "element " << i << " at " << threads << " threads";
  }
  set_num_threads(before);
}

inline std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace reprise::kernels::testing
