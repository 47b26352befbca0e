// Operations along one dimension that the caller names; -1 is the last, and a number has one of size 1. The functions of the same
// names in autograd/ops.h work along the last one, or all.
#pragma once

#include <concepts>

#include "reprise/core/tensor.h"

namespace reprise {

namespace detail {
Tensor softmax_along(const Tensor& x, int64_t dim);
Tensor log_softmax_along(const Tensor& x, int64_t dim);
}  // namespace detail

// For a whole number, so that `softmax(x, {})` still means options.
/// @{
/// `softmax` and `log_softmax` of autograd/ops.h, along `dim`.
template <std::integral D>
Tensor softmax(const Tensor& x, D dim) {
  return reprise::detail::softmax_along(x, int64_t(dim));
}
template <std::integral D>
Tensor log_softmax(const Tensor& x, D dim) {
  return reprise::detail::log_softmax_along(x, int64_t(dim));
}
/// @}

/// @{
/// The place, i64, of the first largest or smallest element along `dim`, without that dimension or with size 1 there. NaN is
/// both largest and smallest. Not differentiable. Error where there are no elements.
Tensor argmax(const Tensor& x, int64_t dim, bool keep_dim = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keep_dim = false);
/// @}
/// @{
/// The same among all elements in row-major order: a number, i64.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
/// @}

/// y[i, ...] = x[index[i, ...], ...] for dim 0. The index, i64 or i32, has x's rank; their other dimensions broadcast. Error
/// on an index outside [0, size of dim). The gradient adds up in the order of the index.
Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim);
/// The elements at the places that `index` says among all elements in row-major order: (elements of the index).
Tensor take_along_dim(const Tensor& x, const Tensor& index);
/// x at the places `index` (K), i64 or i32, of `dim`, which becomes K.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);

/// y = x, then y[index[i, ...], ...] += source[i, ...] for dim 0, for all places of the index, i64 or i32. It has the rank of x and of
/// the source, and may be smaller than these: than x in the other dimensions, than the source in all. What meets in one place is
/// added in the order of the index, on all devices, and to x at the end.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// The same with one place for each of the K slices of the source, which in the other dimensions has x's sizes: index (K). What is
/// added is alpha times the source; alpha is a whole number for integers.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1);

/// @{
/// y = x, then y[index[i, ...], ...] = source[i, ...] for dim 0, or one number there. Index and source as in `scatter_add`. Of what
/// meets in one place the last in the order of the index stays, on all devices, and the others have the gradient 0.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
/// @}
/// @{
/// The same with one place for each of the K slices of the source, or for a number: index (K).
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value);
/// @}

/// The places, i64, of the numbers along `dim` from the smallest to the largest, or the other way round. Equal numbers stay in
/// their order, and NaN are largest. Not differentiable.
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);

/// What `sort` and `topk` give.
struct ValuesAndIndices {
  Tensor values;   ///< of x, in their new order
  Tensor indices;  ///< i64, of that shape: their places in x along the dimension
};
/// x in that order, and the places.
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// The `count` largest numbers, or smallest, the most so first, and their places. Error unless dim has as many.
ValuesAndIndices topk(const Tensor& x, int64_t count, int64_t dim = -1, bool largest = true);

/// y[i] = x[0] + ... + x[i] along `dim`; i64 of integers. Carried in f64 and rounded once (kernels/reduce/cumulative_sum.h).
Tensor cumsum(const Tensor& x, int64_t dim);

Tensor flip(const Tensor& x, const Dims& dims);            ///< backwards along each of these dimensions
Tensor roll(const Tensor& x, int64_t shift, int64_t dim);  ///< what leaves at the end comes in at the front
Tensor roll(const Tensor& x, int64_t shift);  ///< the same of all elements in row-major order, in x's shape
/// The same of several dimensions, a shift for each. Error where there are more of one than of the other.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);
Tensor repeat(const Tensor& x, const Dims& times);  ///< one behind the other, as often in each dimension
Tensor repeat_interleave(const Tensor& x, int64_t times, int64_t dim);  ///< each slice `times` times in a row
/// Slice i times[i] times in a row: one i64 or i32 for each slice, or one for all. Waits for the device, where the times are.
Tensor repeat_interleave(const Tensor& x, const Tensor& times, int64_t dim);

}  // namespace reprise
