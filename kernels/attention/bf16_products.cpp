// Squares of 32 x 32 sums: four tiles, or eight rows of two vectors at a time.
#include "reprise/kernels/attention/bf16_products.h"

#include <algorithm>

#include "reprise/kernels/cpu/amx.h"
#include "reprise/kernels/cpu/bf16_pairs.h"
#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::attention_detail {
namespace {

constexpr int64_t kHalf = kSquare / 2;  // rows, and words in a row, of a tile; lanes of a vector

template <class Unit>
void add_by_tiles(const Bf16Product& p) {
  Unit tiles;
  const int64_t a_bytes = p.a_row * 4, b_bytes = p.b_row * 4, c_bytes = p.c_row * 4;
  float* const below = p.c + kHalf * p.c_row;
  if (p.add) {
    tiles.template load<0>(p.c, c_bytes);
    tiles.template load<1>(p.c + kHalf, c_bytes);
    tiles.template load<2>(below, c_bytes);
    tiles.template load<3>(below + kHalf, c_bytes);
  } else {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  for (int64_t k = 0; k < p.depth / 2; k += kHalf) {
    tiles.template load<4>(p.a + k, a_bytes);
    tiles.template load<6>(p.b + k * p.b_row, b_bytes);
    tiles.template dot_bf16<0, 4, 6>();
    tiles.template load<7>(p.b + k * p.b_row + kHalf, b_bytes);
    tiles.template dot_bf16<1, 4, 7>();
    tiles.template load<5>(p.a + kHalf * p.a_row + k, a_bytes);
    tiles.template dot_bf16<2, 5, 6>();
    tiles.template dot_bf16<3, 5, 7>();
  }
  tiles.template store<0>(p.c, c_bytes);
  tiles.template store<1>(p.c + kHalf, c_bytes);
  tiles.template store<2>(below, c_bytes);
  tiles.template store<3>(below + kHalf, c_bytes);
}

template <class Step>
[[gnu::always_inline]] inline void add_by_pairs(const Bf16Product& p) {
  using bf16_pairs::Sums, bf16_pairs::Words;
  constexpr int64_t rows = 8;
  for (int64_t row = 0; row < kSquare; row += rows) {
    const uint32_t *a = p.a + row * p.a_row, *b = p.b;
    float* const c = p.c + row * p.c_row;
    Sums sum[rows][2];
    for (int i = 0; i < rows; ++i)
      for (int n = 0; n < 2; ++n) sum[i][n] = p.add ? simd::load<Sums>(c + i * p.c_row + n * kHalf) : Sums{};
    for (int64_t k = 0; k < p.depth / 2; ++k, ++a, b += p.b_row) {
      const Words right[2] = {simd::load<Words>(b), simd::load<Words>(b + kHalf)};
      for (int i = 0; i < rows; ++i)
        for (int n = 0; n < 2; ++n) sum[i][n] = Step::add(sum[i][n], right[n], Words{} + a[i * p.a_row]);
    }
    for (int i = 0; i < rows; ++i)
      for (int n = 0; n < 2; ++n) simd::store(c + i * p.c_row + n * kHalf, sum[i][n]);
  }
}

/// Calls body(square) for each square of C.
template <class Body>
[[gnu::always_inline]] inline void each_square(const Bf16Product& product, Body&& body) {
  Bf16Product square = product;
  for (int64_t j = 0; j < product.columns; j += kSquare)
    for (int64_t i = 0; i < product.rows; i += kSquare) {
      square.a = product.a + i * product.a_row;
      square.b = product.b + j;
      square.c = product.c + i * product.c_row + j;
      body(square);
    }
}

}  // namespace

void multiply(const Bf16Product& product) {
  if (simd::tiles() == simd::Tiles::amx) return each_square(product, add_by_tiles<amx::Instructions>);
  if (simd::tiles() == simd::Tiles::model) return each_square(product, add_by_tiles<amx::Model>);
  if (simd::bf16_pairs() != simd::Bf16Pairs::avx512bf16)
    return each_square(product, [](const Bf16Product& p) { add_by_pairs<bf16_pairs::Model>(p); });
  simd::run([&]<int W>() {
    if constexpr (W == 16)
      each_square(product, [](const Bf16Product& p) { add_by_pairs<bf16_pairs::Instruction>(p); });
  });
}

bool suits_bf16_products(const Problem& problem, DType dtype) {
  const bool has_unit = simd::tiles() != simd::Tiles::none || simd::bf16_pairs() != simd::Bf16Pairs::none;
  return has_unit && dtype == DType::bf16 &&
         std::min({problem.head_dim, problem.queries, problem.keys}) >= 16;
}

}  // namespace reprise::kernels::attention_detail
