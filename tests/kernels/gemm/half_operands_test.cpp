// Products of bf16 and f16 beside f32: what is written in f32 is not rounded, what is read in f32 is read whole, and
// 16-bit results are rounded once.
// also by cuBLASLt
// slow in tsan
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "reprise/kernels/cpu/simd.h"
#include "reprise/kernels/gemm/cublaslt.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/tests/kernels/gemm/gemm_reference.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr DType halves[] = {DType::bf16, DType::f16};

struct Numbers : Array {
  Numbers(const Shape& shape, DType dtype, uint64_t seed, Layout layout = Layout::contiguous)
      : Array(shape, dtype, layout) {
    randomize(seed, -1, 1);
  }
};

/// Sums and activations err by some units of f32, as K is small; a 16-bit result is rounded to nearest once more.
double tolerance_of(DType dtype) { return 2e-6 + (dtype == DType::f32 ? 0 : epsilon_of(dtype) / 2); }

void expect_product(const GemmArguments& arguments) {
  const auto& [a, b, c, e] = arguments;
  const ExpectedProduct want = product_reference(a, b, c, e);
  run_kernel(gemm, arguments);
  expect_matrices(c, want.c, tolerance_of(c.dtype), "C");
  if (e.pre_activation)
    expect_matrices(e.pre_activation, want.pre_activation, tolerance_of(e.pre_activation.dtype),
                    "pre_activation");
}

/// The tensors of a forward epilogue, of one half type but for those whose bit of `wide` is set: C, bias, pre_activation,
/// residual, scale, row_scale.
void expect_forward(DType dtype, unsigned wide, int64_t m, int64_t n, int64_t k, bool accumulate) {
  SCOPED_TRACE(::testing::Message() << dtype << ", f32: " << wide << ", accumulates " << accumulate);
  auto of = [&](int bit) { return wide >> bit & 1 ? DType::f32 : dtype; };
  Numbers a({m, k}, dtype, 1), b({k, n}, dtype, 2), c({m, n}, of(0), 3), bias({n}, of(1), 4),
      pre({m, n}, of(2), 5), residual({m, n}, of(3), 6), scale({n}, of(4), 7), row_scale({m / 2}, of(5), 8);
  expect_product({.a = a.view(),
                  .b = b.view(),
                  .c = c.view(),
                  .epilogue = {.bias = bias.view(),
                               .activation = Activation::gelu,
                               .pre_activation = pre.view(),
                               .residual = residual.view(),
                               .scale = scale.view(),
                               .row_scale = row_scale.view(),
                               .accumulate = accumulate}});
  EXPECT_TRUE(c.surroundings_untouched() && pre.surroundings_untouched());
}

TEST(GemmHalfOperands, TakeEveryMixOfDtypes) {
  for (DType dtype : halves)
    for (unsigned wide = 1; wide < 64; ++wide)
      for (bool accumulate : {false, true}) expect_forward(dtype, wide, 6, 37, 9, accumulate);
}

TEST(GemmHalfOperands, AddToEmptySums) {
  for (unsigned wide : {1u, 8u, 21u, 42u, 63u})
    for (int64_t n : {12, 24, 37}) expect_forward(DType::bf16, wide, 4, n, 0, true);
  Numbers a({0, 5}, DType::bf16, 1), b({5, 3}, DType::bf16, 2), c({0, 3}, DType::f32, 3);
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
}

TEST(GemmHalfOperands, GoBackThroughActivations) {
  for (DType dtype : halves)
    for (DType result : {dtype, DType::f32})
      for (DType before : {dtype, DType::f32})
        for (bool accumulate : {false, true}) {
          Numbers a({5, 9}, dtype, 1), b({9, 37}, dtype, 2), c({5, 37}, result, 3), x({5, 37}, before, 4);
          if (result == dtype && before == dtype) continue;
          expect_product(
              {.a = a.view(),
               .b = b.view(),
               .c = c.view(),
               .epilogue = {
                   .activation = Activation::silu, .dactivation = x.view(), .accumulate = accumulate}});
        }
}

TEST(GemmHalfOperands, TakeBatchesOfRowsApart) {
  for (DType dtype : halves) {
    // Rows are parts of wider ones, batch dimensions in another order; the residual is one for all.
    Numbers a({3, 2, 7, 9}, dtype, 1), b({2, 9, 66}, dtype, 2), c({3, 2, 7, 80}, DType::f32, 3),
        pre({2, 3, 7, 66}, dtype, 4), residual({7, 90}, DType::f32, 5), bias({66}, DType::f32, 6);
    auto part = [](const TensorView& x, int64_t begin) { return slice(x, x.rank() - 1, begin, begin + 66); };
    expect_product({.a = a.view(),
                    .b = b.view(),
                    .c = part(c.view(), 7),
                    .epilogue = {.bias = bias.view(),
                                 .activation = Activation::gelu_tanh,
                                 .pre_activation = transpose(pre.view(), 0, 1),
                                 .residual = part(residual.view(), 11),
                                 .accumulate = true}});
    Numbers rows({4, 9, 7}, dtype, 7), weight({9, 66}, dtype, 8), many({4, 7, 66}, DType::f32, 9);
    expect_product({.a = transpose(rows.view(), 1, 2), .b = weight.view(), .c = many.view()});
  }
}

/// The same numbers in f32.
Array widened(const Array& x) {
  const std::vector<double> values = x.values();
  Array wide(x.view().shape, DType::f32);
  wide.fill_with([&](int64_t i) { return values[size_t(i)]; });
  return wide;
}

TEST(GemmHalfOperands, GiveTheBitsOfTheirF32Product) {
  if (reprise::testing::test_device().is_cuda() && vendor::has_cublaslt())
    GTEST_SKIP() << "a library sums products of each dtype in an order of its own";
  if (simd::tiles() != simd::Tiles::none) GTEST_SKIP() << "tiles multiply f32 in parts";
  const bool by_pairs = simd::bf16_pairs() != simd::Bf16Pairs::none;  // which have another order of sums
  for (DType dtype : by_pairs ? std::vector{DType::f16} : std::vector{DType::f16, DType::bf16})
    for (auto [m, n, k] : {std::array<int64_t, 3>{5, 19, 7}, {33, 70, 300}, {17, 40, 1030}}) {
      SCOPED_TRACE(::testing::Message() << dtype << ": " << m << " x " << n << " x " << k);
      Numbers a({m, k}, dtype, 1), b({n, k}, dtype, 2), c({m, n}, DType::f32, 3), want({m, n}, DType::f32, 3);
      Numbers rounded({m, n}, dtype, 4);
      const Array wide_a = widened(a), wide_b = widened(b);
      run_kernel(
          gemm,
          {.a = a.view(), .b = transpose(b.view(), 0, 1), .c = c.view(), .epilogue = {.accumulate = true}});
      run_kernel(gemm, {.a = wide_a.view(),
                        .b = transpose(wide_b.view(), 0, 1),
                        .c = want.view(),
                        .epilogue = {.accumulate = true}});
      EXPECT_EQ(c.values(), want.values());
      run_kernel(gemm, {.a = wide_a.view(), .b = transpose(wide_b.view(), 0, 1), .c = want.view()});
      run_kernel(gemm, {.a = a.view(), .b = transpose(b.view(), 0, 1), .c = rounded.view()});
      const std::vector<double> sums = want.values();
      Array once({m, n}, dtype);
      once.fill_with([&](int64_t i) { return sums[size_t(i)]; });
      EXPECT_EQ(rounded.values(), once.values());
    }
}

TEST(GemmHalfOperands, AddUpInF32) {
  Numbers ones({1, 1}, DType::bf16, 1), c({1, 1}, DType::f32, 2);
  ones.fill_with([](int64_t) { return 1; });
  c.fill_with([](int64_t) { return 256; });  // where the next bf16 is 258
  run_kernel(gemm, {.a = ones.view(), .b = ones.view(), .c = c.view(), .epilogue = {.accumulate = true}});
  EXPECT_EQ(c.values()[0], 257);
}

TEST(GemmHalfOperands, SumTheGradientOfABiasInEitherDtype) {
  for (DType dtype : halves)
    for (DType of_weight : {dtype, DType::f32})
      for (DType of_bias : {dtype, DType::f32}) {
        Numbers dy({65, 33}, dtype, 1), x({65, 17}, dtype, 2), dweight({33, 17}, of_weight, 3),
            dbias({33}, of_bias, 4);
        std::vector<double> sums(33);
        for (int64_t i = 0; i < 65 * 33; ++i) sums[size_t(i % 33)] += dy.values()[size_t(i)];
        const TensorView a = transpose(dy.view(), 0, 1);
        const ExpectedProduct want = product_reference(a, x.view(), dweight.view(), {});
        run_kernel(gemm,
                   {.a = a, .b = x.view(), .c = dweight.view(), .epilogue = {.bias_gradient = dbias.view()}});
        expect_matrices(dweight.view(), want.c, 2 * tolerance_of(of_weight), "dweight");
        expect_matrices(dbias.view(), sums, 2 * tolerance_of(of_bias), "dbias");
      }
}

TEST(GemmHalfOperands, RefuseWhatIsNeitherTheirDtypeNorF32) {
  Numbers a({3, 5}, DType::bf16, 1), b({5, 4}, DType::bf16, 2), c({3, 4}, DType::bf16, 3);
  Numbers half({3, 4}, DType::f16, 4), wide({3, 4}, DType::f64, 5), row({4}, DType::f16, 6);
  auto refuses = [](const GemmArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(gemm, arguments); }, message);
  };
  auto with = [&](const Epilogue& e) {
    return GemmArguments{.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = e};
  };
  refuses({.a = a.view(), .b = b.view(), .c = half.view()}, "gemm: C is f16 but A and B are bf16");
  refuses({.a = a.view(), .b = b.view(), .c = wide.view()}, "gemm: C is f64 but A and B are bf16");
  refuses(with({.bias = row.view()}), "gemm: bias is f16 but A and B are bf16");
  refuses(with({.scale = row.view()}), "gemm: scale is f16 but A and B are bf16");
  refuses(with({.row_scale = Numbers({3}, DType::f16, 1).view()}),
          "gemm: row_scale is f16 but A and B are bf16");
  refuses(with({.residual = half.view()}), "gemm: residual is f16 but A and B are bf16");
  refuses(with({.pre_activation = wide.view()}), "gemm: pre_activation is f64 but A and B are bf16");
  refuses(with({.dactivation = wide.view()}), "gemm: dactivation is f64 but A and B are bf16");
  refuses(with({.bias_gradient = Numbers({3}, DType::f16, 1).view()}),
          "gemm: bias_gradient is f16 but A and B are bf16");
  const Array wide_a = widened(a), wide_b = widened(b);
  refuses({.a = wide_a.view(), .b = b.view(), .c = c.view()}, "gemm: B is bf16 but A is f32");
  refuses({.a = wide_a.view(), .b = wide_b.view(), .c = c.view()}, "gemm: C is bf16 but A and B are f32");
}

}  // namespace
}  // namespace reprise::kernels::testing
