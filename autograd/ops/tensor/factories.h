// Tensors made with fewer arguments than in autograd/ops.h, or in another dtype than that of the one they are made like.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "reprise/autograd/ops.h"

namespace reprise {

namespace detail {
Tensor range_of_integers(int64_t start, int64_t end, int64_t step, DType dtype, Device device);
template <class I>
concept WholeNumber = std::integral<I> && !std::same_as<I, bool> && !std::same_as<I, char>;
template <WholeNumber I>
int64_t integer(I x) {
  check(std::in_range<int64_t>(x), "arange: ", x, " does not fit i64");
  return int64_t(x);
}
template <class... Numbers>
concept SomeFloating = (std::is_arithmetic_v<Numbers> && ...) && (std::floating_point<Numbers> || ...);
}  // namespace detail

/// @{
/// start, start + step, ... before end, by steps of 1 if none is given: ceil((end - start) / step) numbers, none where the end lies on
/// the other side. Of whole numbers i64, and exact; where one has a floating type f32. Error if step is 0.
Tensor arange(double start, double end, double step, DType dtype = DType::f32, Device device = {});
template <detail::WholeNumber A, detail::WholeNumber B>
Tensor arange(A start, B end, DType dtype = DType::i64, Device device = {}) {
  return detail::range_of_integers(detail::integer(start), detail::integer(end), 1, dtype, device);
}
template <detail::WholeNumber A, detail::WholeNumber B, detail::WholeNumber C>
Tensor arange(A start, B end, C step, DType dtype = DType::i64, Device device = {}) {
  return detail::range_of_integers(detail::integer(start), detail::integer(end), detail::integer(step), dtype,
                                   device);
}
template <class A, class B>
requires detail::SomeFloating<A, B> Tensor arange(A start, B end, DType dtype = DType::f32,
                                                  Device device = {}) {
  return arange(double(start), double(end), 1.0, dtype, device);
}
/// @}
/// 0, 1, ... before a number that need not be whole.
template <std::floating_point A>
Tensor arange(A end, DType dtype = DType::f32, Device device = {}) {
  return arange(0.0, double(end), 1.0, dtype, device);
}

Tensor eye(int64_t size, DType dtype = DType::f32, Device device = {});  ///< the unit matrix (size, size)

/// Of the shape, dtype and device of x; what is in it is not said.
Tensor empty_like(const Tensor& x);
/// @{
/// Of the shape and device of x, in another dtype.
Tensor empty_like(const Tensor& x, DType dtype);
Tensor zeros_like(const Tensor& x, DType dtype);
Tensor ones_like(const Tensor& x, DType dtype);
Tensor full_like(const Tensor& x, double value, DType dtype);
Tensor rand_like(const Tensor& x, DType dtype, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, DType dtype, Generator* generator = nullptr);
/// @}

}  // namespace reprise
