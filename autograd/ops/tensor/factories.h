// Tensors made with fewer arguments than in autograd/ops.h, or in another dtype than that of the one they are made like.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

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

// A number, or a list of numbers or of such lists.
class Nested {
 public:
  template <std::floating_point F>
  Nested(F number) : dtype(DType::f32), real(double(number)) {}
  template <WholeNumber I>
  Nested(I number) : dtype(DType::i64), whole(std::in_range<int64_t>(number) ? int64_t(number) : 0) {
    check(std::in_range<int64_t>(number), "tensor: ", number, " does not fit i64");
  }
  template <std::same_as<bool> B>
  Nested(B truth) : dtype(DType::boolean), whole(truth) {}
  Nested(std::initializer_list<Nested> items) : is_list(true), list(items) {}

  bool is_list = false;
  std::vector<Nested> list{};
  DType dtype = DType::f32;  // of a number: f32, i64 or bool
  double real = 0;           // its value where it is floating
  int64_t whole = 0;         // and where it is not
};
}  // namespace detail

/// The numbers between the braces, whose nesting is the shape; a number alone has none. Where no dtype is given it is f32 if one of them
/// has a floating type, else i64 if one is an integer, else bool; of no numbers f32. Error where lists beside each other differ in size
/// or depth, and if the dtype does not have a number. (PyTorch: torch.tensor.)
///
///     rp::Tensor x = rp::tensor({{1., 2.}, {3., 4.}});  // f32 (2, 2)
///     rp::Tensor i = rp::tensor({2, 0, 1});             // i64 (3)
Tensor tensor(const detail::Nested& numbers, std::optional<DType> dtype = {}, Device device = {});

/// What is in it is not said. Error on a negative size, OutOfMemory if there is no room.
Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});

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

/// A tensor with the shape, dtype and device of x, not initialised.
Tensor empty_like(const Tensor& x);
/// @{
/// A tensor with the shape and device of x, in another dtype.
Tensor empty_like(const Tensor& x, DType dtype);
Tensor zeros_like(const Tensor& x, DType dtype);
Tensor ones_like(const Tensor& x, DType dtype);
Tensor full_like(const Tensor& x, double value, DType dtype);
Tensor rand_like(const Tensor& x, DType dtype, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, DType dtype, Generator* generator = nullptr);
/// @}

}  // namespace reprise
