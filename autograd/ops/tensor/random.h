// Random whole numbers, orders and choices. All draw from `generator` (default: the thread's), on any device the same.
#pragma once

#include "reprise/core/random.h"
#include "reprise/core/tensor.h"

namespace reprise {

/// @{
/// Whole numbers, each of low, ..., high - 1 as likely: i64; low is 0 where it is not given. Error unless -2^32 <= low < high <=
/// 2^32.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = {},
               Generator* generator = nullptr);
Tensor randint(int64_t high, const Shape& shape, Device device = {}, Generator* generator = nullptr);
/// @}
/// @{
/// The same numbers in another dtype. Error if it does not have all whole numbers up to both ends, as bf16 from 257 on; in bool each
/// but 0 is true.
Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device = {},
               Generator* generator = nullptr);
Tensor randint(int64_t high, const Shape& shape, DType dtype, Device device = {},
               Generator* generator = nullptr);
/// @}
/// @{
/// `randint` of the shape, dtype and device of x.
Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Generator* generator = nullptr);
Tensor randint_like(const Tensor& x, int64_t high, Generator* generator = nullptr);
/// @}

/// 0, ..., count - 1 in random order: i64 (count).
Tensor randperm(int64_t count, Device device = {}, Generator* generator = nullptr);

/// 1 with the probability that an element of p is, else 0: of p's dtype. Not differentiable. NaN, and what is less than 0, is
/// never 1; what is more than 1 always. Probabilities are rounded up to multiples of 2^-24.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

/// Options of `multinomial`.
struct MultinomialOptions {
  bool replacement = false;        ///< a class may be drawn more than once
  Generator* generator = nullptr;  ///< default: the thread's
};
/// `count` classes of each row of weights (..., C), which need not sum to 1, as likely as these say: i64 (..., count). Without
/// replacement in the order drawn. By Gumbel's trick (Maddison et al. 2014): the largest of log w + g. It waits for the
/// device, to look at the weights: Error on NaN, infinite or negative ones, and unless a row has a positive one; without
/// replacement, `count` of them.
Tensor multinomial(const Tensor& weights, int64_t count, const MultinomialOptions& options = {});

}  // namespace reprise
