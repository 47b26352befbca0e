// Views for kernel tests: memory of their own, many layouts of one shape, and element access that shares
// nothing with the kernels. Bytes outside a view hold a pattern, so that a stray write is seen.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "reprise/core/random.h"
#include "reprise/core/stream.h"
#include "reprise/core/view.h"
#include "reprise/tests/kernels/run.h"

namespace reprise::kernels::testing {

enum class Layout {
  contiguous,
  offset,    // starts one element late: unaligned for vectors
  reversed,  // column-major
  rotated,   // the last dimension outermost in memory
  stepped,   // every second element of a larger array, in each dimension
};
#if defined(__SANITIZE_THREAD__)  // layouts that threads share alike are left out
inline constexpr Layout layouts[] = {Layout::contiguous, Layout::stepped};
#else
inline constexpr Layout layouts[] = {Layout::contiguous, Layout::offset, Layout::reversed, Layout::rotated,
                                     Layout::stepped};
#endif

/// Odd sizes and every rank from 0 to 5, empty ones too.
inline const std::vector<Shape>& small_shapes() {
  static const std::vector<Shape> shapes = {
      {},  {1},       {7},      {37}, {3, 5}, {17, 19}, {3, 5, 7}, {2, 3, 5, 7}, {2, 1, 3, 5, 2},
      {0}, {3, 0, 5}, {1, 1, 1}};
  return shapes;
}

inline double element(const TensorView& view, int64_t offset) {
  return dispatch_all(view.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      return double(float(view.as<T>()[offset]));
    else
      return double(view.as<T>()[offset]);
  });
}

inline void set_element(const TensorView& view, int64_t offset, double value) {
  dispatch_all(view.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      view.as<T>()[offset] = T(float(value));
    else
      view.as<T>()[offset] = T(value);
  });
}

/// The offset of the element that is number `i` in row-major order.
inline int64_t offset_of(const TensorView& view, int64_t i) {
  int64_t offset = 0;
  for (int dim = view.rank() - 1; dim >= 0; --dim) {
    offset += i % view.shape[dim] * view.strides[dim];
    i /= view.shape[dim];
  }
  return offset;
}

inline std::vector<double> values_of(const TensorView& view) {
  std::vector<double> values(size_t(view.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = element(view, offset_of(view, int64_t(i)));
  return values;
}

/// A view and the memory behind it.
class Array {
 public:
  Array(const Shape& shape, DType dtype, Layout layout = Layout::contiguous, int64_t skipped = 0) {
    int rank = shape.size();
    Dims order;
    for (int i = 0; i < rank; ++i)
      order.push_back(layout == Layout::reversed  ? rank - 1 - i
                      : layout == Layout::rotated ? (i + rank - 1) % rank
                                                  : i);
    int64_t step = layout == Layout::stepped ? 2 : 1, stride = step;
    if (layout == Layout::offset) skipped += 1;
    view_.shape = shape;
    view_.strides = Dims::filled(rank, 1);
    view_.dtype = dtype;
    for (int i = rank - 1; i >= 0; --i) {
      view_.strides[int(order[i])] = stride;
      stride *= std::max<int64_t>(shape[int(order[i])], 1) * step;
    }
    bytes_ = size_t(skipped + stride + 1) * size_of(dtype);
    memory_ = std::make_unique<uint64_t[]>(bytes_ / 8 + 1);
    std::fill_n(bytes(), bytes_, kPattern);
    view_.data = bytes() + size_t(skipped) * size_of(dtype);
  }

  const TensorView& view() const { return view_; }
  std::vector<double> values() const { return values_of(view_); }

  /// Sets the elements, in row-major order, to `value(i)` rounded to the dtype.
  template <class Value>
  Array& fill_with(Value&& value) {
    for (int64_t i = 0; i < view_.numel(); ++i) set_element(view_, offset_of(view_, i), value(i));
    return *this;
  }
  /// Numbers in [low, high), the same for the same seed.
  Array& randomize(uint64_t seed, double low = -4, double high = 4) {
    return fill_with(
        [=](int64_t i) { return low + (high - low) * to_unit_float(philox_block(seed, 0, uint64_t(i))[0]); });
  }

  /// Whether every byte outside the view still holds the pattern.
  bool surroundings_untouched() const {
    std::vector<bool> inside(bytes_);
    size_t size = size_of(view_.dtype), start = size_t(static_cast<unsigned char*>(view_.data) - bytes());
    for (int64_t i = 0; i < view_.numel(); ++i)
      for (size_t b = 0; b < size; ++b) inside[start + size_t(offset_of(view_, i)) * size + b] = true;
    for (size_t b = 0; b < bytes_; ++b)
      if (!inside[b] && bytes()[b] != kPattern) return false;
    return true;
  }

 private:
  static constexpr unsigned char kPattern = 0x5a;
  unsigned char* bytes() const { return reinterpret_cast<unsigned char*>(memory_.get()); }

  size_t bytes_ = 0;
  std::unique_ptr<uint64_t[]> memory_;
  TensorView view_;
};

/// The spacing of numbers near 1.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    default:
      return 0;
  }
}

/// Expects |got - want| <= tolerance max(1, |want|) for each element; NaN matches NaN.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])) ||
                std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0, std::fabs(want[i]));
    ASSERT_TRUE(same) << what << ": element " << i << " is " << got[i] << ", should be " << want[i];
  }
}

inline std::string describe(const Shape& shape, DType dtype, Layout layout) {
  return reprise::detail::join(shape, " ", dtype, " layout ", int(layout));
}

}  // namespace reprise::kernels::testing
