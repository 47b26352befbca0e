// Products of blocks of bf16 on what the CPU has for them: tiles (kernels/cpu/amx.h) or pairs (kernels/cpu/bf16_pairs.h).
//
// Both read A row by row and B as words of two numbers that are neighbours along the sum, so blocks are packed alike:
//   plain   (rows, columns)       as the numbers are, 2 in a word
//   pairs   (rows / 2, columns)   words of rows 2r, in the lower half, and 2r + 1
// Subnormal numbers count as zeros, in both.
#pragma once

#include <cstdint>

#include "reprise/core/dtype.h"
#include "reprise/kernels/attention/problem.h"

namespace reprise::kernels::attention_detail {

/// Rows, columns and depths of blocks are multiples of this.
inline constexpr int64_t kSquare = 32;

/// C (rows, columns) = A B, or C += A B. Strides are of words, or of numbers for C.
struct Bf16Product {
  const uint32_t* a;  // plain (rows, depth)
  int64_t a_row;
  const uint32_t* b;  // pairs (depth / 2, columns)
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t rows, columns, depth;
  bool add;
};

/// The thread has an `amx::Session`.
void multiply(const Bf16Product& product);

/// Whether attention of this problem in `dtype` is computed by these products: a function of its sizes and the CPU.
bool suits_bf16_products(const Problem& problem, DType dtype);

}  // namespace reprise::kernels::attention_detail
