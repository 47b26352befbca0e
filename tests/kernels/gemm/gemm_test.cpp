// gemm against three loops in f64, over layouts, dtypes, epilogues and thread counts.
// also by cuBLASLt
// not in tsan: Gemm.CutsLargeMatricesIntoBlocks:Gemm.SumsOverManyPanels:Gemm.AppliesEpiloguesToEmptySums:Gemm.WritesLargeResults
#include "reprise/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/blocks.h"
#include "reprise/kernels/gemm/vector_unit.h"
#include "reprise/tests/kernels/gemm/gemm_reference.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels {
namespace {

using testing::element_at;
using testing::expect_error;
using testing::expect_matrices;
using testing::ExpectedProduct;
using testing::product_reference;
using testing::run_kernel;

/// An array of numbers in [-1, 1).
template <class T>
struct Random : testing::Array {
  explicit Random(const Shape& shape, uint64_t seed = 0) : Array(shape, dtype_of<T>) {
    randomize(seed, -1, 1);
  }
  T* data() const { return view().as<T>(); }
};

/// Partial sums of K products grow to sqrt(K) and each of K additions rounds by a random unit: the error is
/// about K / 6 units, up to five times that among thousands of elements. Storing adds half a unit of the
/// storage type.
template <class T>
double tolerance(int64_t k) {
  double unit = std::is_same_v<T, double> ? 1e-16 : 6e-8;
  double storage = std::is_same_v<T, BFloat16> ? 0.004 : std::is_same_v<T, Float16> ? 5e-4 : 0;
  return unit * (10 + double(k)) + storage;
}

template <class T>
void expect_product(const TensorView& a, const TensorView& b, const TensorView& c, const Epilogue& e = {}) {
  ExpectedProduct want = product_reference(a, b, c, e);
  run_kernel(gemm, {.a = a, .b = b, .c = c, .epilogue = e});
  double limit = tolerance<T>(a.size(-1));
  expect_matrices(c, want.c, limit, "C");
  if (e.pre_activation) expect_matrices(e.pre_activation, want.pre_activation, limit, "pre_activation");
}

/// Each operand plain or transposed.
template <class T>
void expect_all_layouts(int64_t m, int64_t n, int64_t k) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << m << " x " << n << " x " << k << " " << transpose_a << transpose_b);
      Random<T> a(transpose_a ? Shape{k, m} : Shape{m, k}, 1), b(transpose_b ? Shape{n, k} : Shape{k, n}, 2);
      Random<T> c({m, n}, 3);
      expect_product<T>(transpose_a ? transpose(a.view(), 0, 1) : a.view(),
                        transpose_b ? transpose(b.view(), 0, 1) : b.view(), c.view());
    }
}

TEST(Gemm, MatchesLoopsForOddSizesAndAllLayouts) {
  const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {14, 32, 16}, {15, 33, 17},
                              {13, 65, 31}, {1, 97, 40},   {113, 1, 9},  {29, 129, 3},
                              {6, 16, 385}, {127, 66, 50}, {4, 8, 1200}};
  for (auto [m, n, k] : sizes) {
    expect_all_layouts<float>(m, n, k);
    expect_all_layouts<double>(m, n, k);
    expect_all_layouts<BFloat16>(m, n, k);
    expect_all_layouts<Float16>(m, n, k);
  }
}

using gemm_detail::Blocks;
using gemm_detail::VectorUnit;
constexpr int64_t one_round = Blocks::max_k_round;  // the deepest K of one

TEST(Gemm, SumsOverManyPanels) {
  expect_all_layouts<float>(31, 70, 3 * VectorUnit<float>::max_k_panel - 24);
  expect_all_layouts<float>(17, 37, one_round + 1);
  expect_all_layouts<double>(17, 37, one_round + 1);
  expect_all_layouts<BFloat16>(17, 37, one_round + 1);
  expect_all_layouts<float>(5, 37, 2 * one_round + 1);
}

/// Every 7th row and column of C against a dot product: loops over all would be slow.
void expect_sampled_product(int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
  Random<float> a({m, k}, 1), b({k, n}, 2), c({m, n}, 3);
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
  for (int64_t i = 0; i < m; i += 7)
    for (int64_t j = 0; j < n; j += 7) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += double(a.data()[i * k + p]) * b.data()[p * n + j];
      ASSERT_NEAR(c.data()[i * n + j], sum, 1e-4) << i << ", " << j;  // see `tolerance`; sums reach 40
    }
}

TEST(Gemm, CutsLargeMatricesIntoBlocks) {
  for (int64_t k : {one_round, one_round + 1}) {
    const Blocks tall(VectorUnit<float>(), 1 << 20, 9, k), wide(VectorUnit<float>(), 9, 1 << 20, k);
    expect_sampled_product(2 * tall.block_m + 5, 9, k);
    expect_sampled_product(9, 2 * wide.block_n + 5, k);
  }
  if (reprise::testing::test_device().type == DeviceType::cuda) return;  // has no such blocks
  const Blocks square(VectorUnit<float>(), 1 << 20, 1 << 20, one_round);
  expect_sampled_product(square.block_m + square.tile_m, square.block_n + square.tile_n, one_round);
}

template <class T>
void expect_epilogues(int64_t m, int64_t n, int64_t k) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu})
    for (int options = 0; options < 16; ++options) {
      SCOPED_TRACE(::testing::Message() << "activation " << int(activation) << " options " << options);
      Random<T> a({m, k}, 1), b({k, n}, 2), c({m, n}, 3), bias({n}, 4), pre({m, n}, 5), residual({m, n}, 6);
      Epilogue e{.activation = activation, .accumulate = bool(options & 8)};
      if (options & 1) e.bias = bias.view();
      if (options & 2) e.pre_activation = pre.view();
      if (options & 4) e.residual = residual.view();
      expect_product<T>(a.view(), b.view(), c.view(), e);
      Epilogue backward{.activation = activation, .dactivation = pre.view(), .accumulate = bool(options & 8)};
      expect_product<T>(a.view(), b.view(), c.view(), backward);
    }
}

/// Of more bytes than caches keep, which AMD's CPUs write past them where rows begin at a multiple of a vector's size.
template <class T>
void expect_large_results() {
  if (reprise::testing::test_device().type == DeviceType::cuda) return;  // has one way
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1500, 1440}, {1500, 1445}}) {
    Random<T> a({m, 3}, 1), b({3, n}, 2), c({m, n}, 3), bias({n}, 4), pre({m, n}, 5), residual({m, n}, 6);
    expect_product<T>(a.view(), b.view(), c.view(),
                      {.bias = bias.view(),
                       .activation = Activation::gelu,
                       .pre_activation = pre.view(),
                       .residual = residual.view()});
  }
}

TEST(Gemm, WritesLargeResults) {
  expect_large_results<float>();
  expect_large_results<BFloat16>();
  expect_large_results<Float16>();
}

/// The first third of the products of each sum and the next cancel: what is left of them is the rounding of the sum,
/// which shows its order.
template <class T>
void let_products_cancel(Random<T>& a, Random<T>& b, int64_t m, int64_t n, int64_t k) {
  const int64_t third = k / 3;
  for (int64_t p = 0; p < third; ++p) {
    for (int64_t i = 0; i < m; ++i) {
      T& large = a.data()[i * k + p];
      large = T(float(large) * 4096);
      a.data()[i * k + p + third] = T(-float(large));
    }
    for (int64_t j = 0; j < n; ++j) b.data()[(p + third) * n + j] = b.data()[p * n + j];
  }
}

/// C and the pre-activation of a call that gives both, and of calls that give one of the two.
template <class T>
void expect_the_same_bits(int64_t m, int64_t n, int64_t k, Activation activation, bool with_bias) {
  SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " activation " << int(activation));
  Random<T> a({m, k}, 1), b({k, n}, 2), bias({n}, 3), c({m, n}, 4), pre({m, n}, 5), other({m, n}, 6);
  let_products_cancel(a, b, m, n, k);
  Epilogue e{.activation = activation};
  if (with_bias) e.bias = bias.view();
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = other.view(), .epilogue = e});
  e.pre_activation = pre.view();
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = e});
  EXPECT_EQ(other.values(), c.values());
  e.pre_activation = {};
  e.stops_before_activation = true;
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = other.view(), .epilogue = e});
  EXPECT_EQ(other.values(), pre.values());
}

TEST(Gemm, GivesTheSameBitsWhateverElseIsWanted) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu})
    for (bool with_bias : {false, true})
      for (auto [m, n, k] : {std::array<int64_t, 3>{6, 24, 40}, {7, 24, 40}, {6, 21, 33}}) {
        expect_the_same_bits<float>(m, n, k, activation, with_bias);
        expect_the_same_bits<double>(m, n, k, activation, with_bias);
        expect_the_same_bits<BFloat16>(m, n, k, activation, with_bias);
        expect_the_same_bits<Float16>(m, n, k, activation, with_bias);
      }
}

template <class T>
void expect_scales(int64_t samples, int64_t sample_rows, int64_t n, int64_t k) {
  const int64_t m = samples * sample_rows;
  for (int options = 0; options < 8; ++options) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " options " << options);
    Random<T> a({m, k}, 1), b({k, n}, 2), c({m, n}, 3), bias({n}, 4), scale({n}, 5), row_scale({samples}, 6),
        residual({m, n}, 7), pre({m, n}, 8);
    Epilogue e{.bias = bias.view(), .pre_activation = pre.view(), .residual = residual.view()};
    if (options & 1) e.scale = scale.view();
    if (options & 2) e.row_scale = row_scale.view();
    if (options & 4) e.activation = Activation::gelu, e.accumulate = true;
    expect_product<T>(a.view(), b.view(), c.view(), e);
    EXPECT_TRUE(scale.surroundings_untouched() && c.surroundings_untouched());
  }
}

TEST(Gemm, ScalesColumnsAndSamples) {
  expect_scales<float>(5, 7, 37, 20);
  expect_scales<float>(1, 3, 5, 9);
  expect_scales<float>(33, 1, 300, 0);
  expect_scales<double>(3, 2, 19, 7);
  expect_scales<BFloat16>(3, 2, 19, 7);
  expect_scales<Float16>(3, 2, 24, 7);
  Random<float> a({4, 5, 7}, 1), b({4, 7, 6}, 2), c({4, 5, 6}, 3), scale({6}, 4);
  expect_product<float>(a.view(), b.view(), c.view(), {.scale = scale.view()});
}

TEST(Gemm, AppliesEpilogues) {
  expect_epilogues<float>(17, 37, 20);
  expect_epilogues<double>(5, 19, 7);
  expect_epilogues<BFloat16>(5, 19, 7);
  expect_epilogues<Float16>(5, 19, 7);
  if (reprise::testing::test_device().type == DeviceType::cuda) return;  // sums there come in one piece
  expect_epilogues<float>(3, 5, one_round + 1);
  expect_epilogues<BFloat16>(3, 5, one_round + 1);
}

TEST(Gemm, AppliesEpiloguesToEmptySums) {
  for (int m : {1, 33}) expect_epilogues<float>(m, 300, 0);
  expect_epilogues<double>(3, 5, 0);
  expect_epilogues<BFloat16>(3, 5, 0);
}

template <class T>
void expect_epilogues_of_batches(int64_t k) {
  // Rows of C and of what its epilogue takes are parts of wider ones; batch dimensions are in another order.
  Random<T> a({3, 2, 70, k}, 1), b({2, k, 66}, 2), c({3, 2, 70, 80}, 3), pre({2, 3, 70, 66}, 4),
      residual({70, 90}, 5), bias({66}, 6);
  auto part = [](const TensorView& x, int64_t begin) { return slice(x, -1 + x.rank(), begin, begin + 66); };
  Epilogue e{.bias = bias.view(),
             .activation = Activation::gelu_tanh,
             .pre_activation = transpose(pre.view(), 0, 1),
             .residual = part(residual.view(), 11),
             .accumulate = true};
  expect_product<T>(a.view(), b.view(), part(c.view(), 7), e);
  expect_product<T>(a.view(), b.view(), part(c.view(), 7),
                    {.activation = Activation::silu, .dactivation = transpose(pre.view(), 0, 1)});
}

TEST(Gemm, AppliesEpiloguesToBatches) {
  expect_epilogues_of_batches<float>(9);
  expect_epilogues_of_batches<float>(0);
  expect_epilogues_of_batches<Float16>(9);
}

TEST(Gemm, BroadcastsBatches) {
  Random<float> a({4, 1, 5, 7}, 1), b({3, 7, 6}, 2), c({4, 3, 5, 6}, 3);
  expect_product<float>(a.view(), b.view(), c.view());
  Random<float> weight({7, 6}, 2), residual({3, 5, 6}, 4), bias({6}, 5);
  expect_product<float>(a.view(), weight.view(), slice(c.view(), 1, 0, 1));
  expect_product<float>(a.view(), weight.view(), c.view(),
                        {.bias = bias.view(), .residual = residual.view()});
  Random<float> rows({4, 3, 5, 7}, 6);
  expect_product<float>(rows.view(), weight.view(), c.view(), {.bias = bias.view()});
}

TEST(Gemm, TakesManySmallMatricesAndHeadsInterleaved) {
  // (B, T, H, D) seen as (B, H, T, D), as attention has it.
  Random<float> q({2, 9, 3, 8}, 1), k({2, 9, 3, 8}, 2), c({2, 3, 9, 9}, 3);
  expect_product<float>(transpose(q.view(), 1, 2), transpose(permute(k.view(), {0, 2, 1, 3}), 2, 3),
                        c.view());
  Random<float> many_a({70, 11, 13}, 4), many_b({70, 13, 5}, 5), many_c({70, 11, 5}, 6);
  expect_product<float>(many_a.view(), many_b.view(), many_c.view());
}

TEST(Gemm, TakesAnyStrides) {
  Random<float> a({20, 30}, 1), b({30, 40}, 2), c({20, 40}, 3), row({1, 15}, 4), column({15, 1}, 5);
  expect_product<float>(slice(a.view(), 1, 0, 30, 2), slice(slice(b.view(), 0, 0, 30, 2), 1, 0, 40, 3),
                        slice(c.view(), 1, 5, 19));
  expect_product<float>(expand(row.view(), {20, 15}), expand(column.view(), {15, 40}), c.view());
}

TEST(Gemm, HandlesEmptySizes) {
  Random<float> a({3, 0}), b({0, 4}), c({3, 4}, 1), bias({4}, 2), residual({3, 4}, 3);
  run_kernel(gemm, {.a = a.view(),
                    .b = b.view(),
                    .c = c.view(),
                    .epilogue = {.bias = bias.view(), .residual = residual.view()}});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(c.data()[i], bias.data()[i % 4] + residual.data()[i]);
  run_kernel(gemm, {.a = Random<float>({0, 5}).view(),
                    .b = Random<float>({5, 4}).view(),
                    .c = Random<float>({0, 4}).view()});
  run_kernel(gemm, {.a = Random<float>({2, 5}).view(),
                    .b = Random<float>({5, 0}).view(),
                    .c = Random<float>({2, 0}).view()});
}

TEST(Gemm, IsExactAcrossThreadCounts) {
  int threads = num_threads();
  // the last four in strips of rows or columns on few threads, and in tiles on more
  const int64_t sizes[][3] = {
      {100, 70, 50}, {257, 300, one_round + 1}, {33, 1025, 130}, {1100, 290, 300}, {300, 20, one_round + 20}};
  for (auto [m, n, k] : sizes) {
    Random<float> a({m, k}, 1), b({k, n}, 2), one({m, n}), other({m, n});
    set_num_threads(1);
    run_kernel(gemm,
               {.a = a.view(), .b = b.view(), .c = one.view(), .epilogue = {.activation = Activation::gelu}});
    for (int count : {2, 3, 7}) {
      set_num_threads(count);
      run_kernel(
          gemm,
          {.a = a.view(), .b = b.view(), .c = other.view(), .epilogue = {.activation = Activation::gelu}});
      EXPECT_EQ(one.values(), other.values()) << count;
    }
  }
  set_num_threads(threads);
}

/// With `row_stride`, dY's rows lie that far apart.
template <class T>
void expect_bias_gradient(int64_t rows, int64_t out, int64_t in, int64_t row_stride) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, " << out << " x " << in << ", stride " << row_stride);
  Random<T> dy({rows, row_stride}, 1), x({rows, in}, 2), dweight({out, in}, 3), dbias({out}, 4);
  TensorView dy_rows = dy.view();
  dy_rows.shape = {rows, out};
  std::vector<double> sums(static_cast<size_t>(out));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < out; ++i) sums[size_t(i)] += element_at(dy_rows, {row, i});
  const TensorView a = transpose(dy_rows, 0, 1);
  expect_product<T>(a, x.view(), dweight.view(), {.bias_gradient = dbias.view()});
  expect_matrices(dbias.view(), sums, tolerance<T>(rows), "bias_gradient");
}

TEST(Gemm, SumsTheGradientOfABiasBesideThatOfItsWeight) {
  for (auto [rows, out, in] : {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {65, 33, 17}, {300, 129, 8}})
    for (int64_t row_stride : {out, out + 3}) {
      expect_bias_gradient<float>(rows, out, in, row_stride);
      expect_bias_gradient<double>(rows, out, in, row_stride);
      expect_bias_gradient<BFloat16>(rows, out, in, row_stride);
      expect_bias_gradient<Float16>(rows, out, in, row_stride);
    }
}

TEST(Gemm, SumsTheGradientOfABiasWhereTheProductIsEmpty) {
  Random<float> dy({4, 3}, 1), sums({3}, 2), zeros({3}, 3);
  const TensorView a = transpose(dy.view(), 0, 1);
  run_kernel(gemm, {.a = a,
                    .b = Random<float>({4, 0}).view(),
                    .c = Random<float>({3, 0}).view(),
                    .epilogue = {.bias_gradient = sums.view()}});
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(sums.data()[i], dy.data()[i] + dy.data()[i + 3] + dy.data()[i + 6] + dy.data()[i + 9], 1e-6);
  Random<float> none({3, 0}), x({0, 2}), dweight({3, 2}, 4);
  run_kernel(
      gemm,
      {.a = none.view(), .b = x.view(), .c = dweight.view(), .epilogue = {.bias_gradient = zeros.view()}});
  EXPECT_EQ(zeros.values(), std::vector<double>(3));
  EXPECT_EQ(dweight.values(), std::vector<double>(6));
}

TEST(Gemm, KeepsNanAndInfinity) {
  Random<float> a({3, 5}, 1), b({5, 4}, 2), c({3, 4});
  a.data()[7] = std::nanf("");
  run_kernel(gemm,
             {.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.activation = Activation::relu}});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(c.data()[i]), i / 4 == 1) << i;
}

TEST(Gemm, RejectsWhatDoesNotFit) {
  Random<float> a({3, 5}), b({5, 4}), c({3, 4}), wrong({2, 4}), bias({3}), columns({5, 3});
  Random<double> d({5, 4});
  Random<int32_t> integers({3, 4});
  auto refuses = [](const GemmArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(gemm, arguments); }, message);
  };
  refuses({.a = a.view(), .b = columns.view(), .c = c.view()}, "gemm: B is (5, 3), needs (..., 5, 4)");
  refuses({.a = a.view(), .b = a.view(), .c = c.view()}, "gemm: inner sizes differ: A (3, 5), B (3, 5)");
  refuses({.a = a.view(), .b = b.view(), .c = wrong.view()},
          "gemm: A is (3, 5), needs (..., 2, 5) for C (2, 4)");
  refuses({.a = a.view(), .b = d.view(), .c = c.view()}, "gemm: B is f64 but A is f32");
  refuses({.a = a.view(), .b = b.view(), .c = integers.view()}, "gemm: needs a floating dtype, got i32");
  refuses({.a = bias.view(), .b = b.view(), .c = c.view()}, "gemm: needs rank 2 or more: A (3,)");
  refuses({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.bias = bias.view()}},
          "gemm: bias is (3,), needs (4,)");
  refuses({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.scale = bias.view()}},
          "gemm: scale is (3,), needs (4,)");
  refuses({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.row_scale = Random<float>({2}).view()}},
          "gemm: row_scale is (2,), which does not divide the 3 rows of C");
  refuses({.a = Random<float>({2, 3, 5}).view(),
           .b = b.view(),
           .c = Random<float>({2, 3, 4}).view(),
           .epilogue = {.row_scale = bias.view()}},
          "gemm: row_scale needs matrices, C is (2, 3, 4)");
  refuses({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.residual = wrong.view()}},
          "gemm: residual is (2, 4), needs (..., 3, 4)");
  refuses({.a = a.view(),
           .b = b.view(),
           .c = c.view(),
           .epilogue = {.residual = c.view(), .dactivation = c.view()}},
          "gemm: dactivation excludes bias, pre_activation, scales");
  refuses({.a = a.view(),
           .b = b.view(),
           .c = c.view(),
           .epilogue = {.residual = c.view(), .stops_before_activation = true}},
          "gemm: stops_before_activation excludes what follows");
  refuses(
      {.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.bias_gradient = Random<float>({4}).view()}},
      "gemm: bias_gradient is (4,), needs (3,)");
  refuses({.a = a.view(),
           .b = b.view(),
           .c = c.view(),
           .epilogue = {.bias_gradient = Random<double>({3}).view()}},
          "gemm: bias_gradient is f64 but A and B are f32");
  refuses({.a = a.view(),
           .b = b.view(),
           .c = c.view(),
           .epilogue = {.activation = Activation::gelu, .bias_gradient = bias.view()}},
          "gemm: bias_gradient excludes every other epilogue but accumulate");
  refuses({.a = a.view(), .b = b.view(), .c = transpose(Random<float>({4, 3}).view(), 0, 1)},
          "gemm: the rows of C need stride 1");
}

}  // namespace
}  // namespace reprise::kernels
