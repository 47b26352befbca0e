// Under autocast a product reads a bias and a LayerScale in f32, and the gradients of f32 leaves are not rounded to 16 bits.
// The reference is f64 of what the product reads: factors that are rounded, vectors that are not.
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/on_gpu.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::numbers;
using testing::test_device;

constexpr DType f32 = DType::f32, f64 = DType::f64;
constexpr DType kHalves[] = {DType::bf16, DType::f16};

// Of sums of f32, relative; a vector that is rounded to 16 bits is off by 1e-3.
constexpr double kNotRounded = 1e-5;

double distance(const Tensor& got, const Tensor& want) {
  const Tensor off = got.detach().to(f64) - want.detach().to(f64);
  return std::sqrt(sum(square(off)).item() / sum(square(want.detach().to(f64))).item());
}

// A leaf in f64 of what `x` is in 16 bits.
Tensor rounded(const Tensor& x, DType half) { return x.detach().to(half).to(f64).set_requires_grad(); }
Tensor wide(const Tensor& x) { return x.detach().to(f64).set_requires_grad(); }

// 1e-5 to 2e-5: of f16 these are subnormal, with 8 bits.
Tensor small_scale(int64_t size, uint64_t seed) {
  return (sigmoid(numbers({size}, seed)) * 1e-5 + 1e-5).detach().set_requires_grad();
}

// Gradients that have 16 bits, times a loss scale.
Tensor halves(const Shape& shape, uint64_t seed, DType half) {
  return (numbers(shape, seed).to(half).to(f32) * 4096.0).detach();
}

void expect_f32_gradient(const Tensor& got, const Tensor& want, double tolerance, const char* what) {
  ASSERT_TRUE(got.grad().defined()) << what;
  EXPECT_EQ(got.grad().dtype(), f32) << what;
  EXPECT_LT(distance(got.grad(), want.grad()), tolerance) << what;
}

TEST(AutocastVectors, LayerScaleOfLinearIsReadInF32) {
  for (DType half : kHalves) {
    const Tensor x = leaf({33, 40}, 1), weight = leaf({24, 40}, 2), bias = leaf({24}, 3),
                 scale = small_scale(24, 4), none = zeros({33, 24}, f32, test_device());
    Tensor y;
    {
      amp::Autocast scope(test_device(), half);
      y = linear(x, weight, bias, {.residual = none, .scale = scale});
    }
    const Tensor dy = halves({33, 24}, 5, half);
    y.backward(dy);
    const Tensor x64 = rounded(x, half), weight64 = rounded(weight, half), bias64 = wide(bias),
                 scale64 = wide(scale);
    const Tensor want = composite::linear(x64, weight64, bias64, {.scale = scale64});
    want.backward(dy.to(f64));
    EXPECT_EQ(y.dtype(), f32);
    EXPECT_LT(distance(y, want), kNotRounded) << half;
    expect_f32_gradient(scale, scale64, kNotRounded, "scale");
    expect_f32_gradient(weight, weight64, kNotRounded, "weight");
    expect_f32_gradient(bias, bias64, kNotRounded, "bias");
    expect_f32_gradient(x, x64, 0.01, "x, which comes out in 16 bits");
  }
}

// Behind an activation the gradient of the scale is a sum over rows.
TEST(AutocastVectors, LayerScaleBehindAnActivationIsReadInF32) {
  for (DType half : kHalves) {
    const Tensor x = leaf({33, 40}, 1), weight = leaf({24, 40}, 2), scale = small_scale(24, 4),
                 none = zeros({33, 24}, f32, test_device());
    Tensor y;
    {
      amp::Autocast scope(test_device(), half);
      y = linear(x, weight, {}, {.activation = Activation::relu, .residual = none, .scale = scale});
    }
    const Tensor dy = halves({33, 24}, 5, half);
    y.backward(dy);
    const Tensor x64 = rounded(x, half), weight64 = rounded(weight, half), scale64 = wide(scale);
    const Tensor want =
        composite::linear(x64, weight64, {}, {.activation = Activation::relu, .scale = scale64});
    want.backward(dy.to(f64));
    EXPECT_LT(distance(y, want), kNotRounded) << half;
    // What is before the activation is kept in 16 bits: roundings that are summed away over rows.
    expect_f32_gradient(scale, scale64, 2e-3, "scale");
    EXPECT_FALSE(testing::same_bits(scale.grad(), scale.grad().to(half).to(f32))) << half;
    expect_f32_gradient(weight, weight64, 0.01, "weight");
  }
}

TEST(AutocastVectors, LayerScaleOfMlpIsReadInF32) {
  for (DType half : kHalves) {
    const Tensor x = leaf({33, 40}, 1), weight1 = leaf({64, 40}, 2), bias1 = leaf({64}, 3),
                 weight2 = leaf({24, 64}, 4), bias2 = leaf({24}, 5), scale = small_scale(24, 6),
                 none = zeros({33, 24}, f32, test_device());
    Tensor y;
    {
      amp::Autocast scope(test_device(), half);
      y = mlp(x, weight1, bias1, weight2, bias2, Activation::relu, {.residual = none, .scale = scale});
    }
    const Tensor dy = halves({33, 24}, 7, half);
    y.backward(dy);
    // The layer between, in 16 bits as the second product reads it.
    const Tensor hidden =
        relu(composite::linear(rounded(x, half), rounded(weight1, half), wide(bias1), {})).detach();
    const Tensor weight64 = rounded(weight2, half), bias64 = wide(bias2), scale64 = wide(scale);
    const Tensor want = composite::linear(rounded(hidden, half), weight64, bias64, {.scale = scale64});
    want.backward(dy.to(f64));
    constexpr double tie =
        1e-4;  // a number of the layer between may lie so near a tie that f32 rounds it elsewhere
    EXPECT_LT(distance(y, want), tie) << half;
    expect_f32_gradient(scale, scale64, tie, "scale");
    expect_f32_gradient(weight2, weight64, tie, "weight2");
    expect_f32_gradient(bias2, bias64, tie, "bias2");
  }
}

// The spacing of numbers of `half` around x.
double spacing(double x, DType half) {
  return std::ldexp(1.0, std::ilogb(x) - (half == DType::bf16 ? 7 : 10));
}

// Products of small integers are exact in 16 bits, so what is left is the rounding of their sum with the bias: half of a last
// bit. A bias that is rounded before, or a sum that is, adds as much again.
void expect_rounded_once(const Tensor& y, const Tensor& exact, DType half, double of_bias = 0) {
  ASSERT_EQ(y.dtype(), half);
  const std::vector<double> got = y.detach().to(f64).to_vector<double>(), want = exact.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - want[i]), 0.5001 * (spacing(want[i], half) + of_bias))
        << i << ": " << want[i];
}

Tensor integers(const Shape& shape, uint64_t seed) {
  return round(sin(numbers(shape, seed)) * 2.0).detach();  // -2 to 2
}

using Convolution = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;
const std::pair<const char*, Convolution> kConvolutions[] = {
    {"conv2d", [](auto& x, auto& w, auto& b) { return conv2d(x, w, b, {.padding = 1}); }},
    {"conv_transpose2d", [](auto& x, auto& w, auto& b) { return conv_transpose2d(x, w, b, {.padding = 1}); }},
    {"conv_transpose2d with a stride",
     [](auto& x, auto& w, auto& b) { return conv_transpose2d(x, w, b, {.stride = 3, .padding = 1}); }}};

TEST(AutocastVectors, BiasOfAConvolutionIsAddedInF32AndRoundedOnce) {
  for (DType half : kHalves)
    for (const auto& [name, apply] : kConvolutions) {
      SCOPED_TRACE(name);
      const Tensor x = integers({2, 3, 8, 9}, 1).set_requires_grad(),
                   weight = integers({3, 3, 3, 3}, 2).set_requires_grad(), bias = leaf({3}, 3);
      Tensor y;
      {
        amp::Autocast scope(test_device(), half);
        y = apply(x, weight, bias);
      }
      const Tensor bias64 = wide(bias), want = apply(wide(x), wide(weight), bias64);
      // By cuBLASLt, which has no bias in f32 beside 16 bits, the bias is rounded first.
      const double of_bias = testing::on_gpu() ? spacing(max(abs(bias64)).item(), half) : 0;
      expect_rounded_once(y, want, half, of_bias);
      const Tensor dy = halves(y.shape(), 4, half);
      y.backward(dy.to(half));
      want.backward(dy.to(f64));
      expect_f32_gradient(bias, bias64, kNotRounded, "bias");
    }
}

// Without autocast: what cuDNN adds a bias of 16 bits to is rounded already.
TEST(AutocastVectors, BiasOfAConvolutionInSixteenBitsIsRoundedOnceOnTheCpu) {
  for (DType half : kHalves)
    for (const auto& [name, apply] : kConvolutions) {
      SCOPED_TRACE(name);
      const Device cpu = Device::cpu();
      const Tensor x = integers({2, 3, 8, 9}, 1).to(cpu), weight = integers({3, 3, 3, 3}, 2).to(cpu),
                   bias = numbers({3}, 3).to(cpu).to(half);
      expect_rounded_once(apply(x.to(half), weight.to(half), bias),
                          apply(x.to(f64), weight.to(f64), bias.to(f64)), half);
    }
}

TEST(AutocastVectors, MainGradientOfAConvolutionsBiasIsNotRounded) {
  for (DType half : kHalves)
    for (const auto& [name, apply] : kConvolutions) {
      SCOPED_TRACE(name);
      const Tensor x = numbers({2, 3, 8, 9}, 1).to(half), weight = numbers({3, 3, 3, 3}, 2).to(half);
      const Tensor bias = numbers({3}, 3).to(half).set_requires_grad().set_grad_dtype(f32),
                   bias64 = wide(bias);
      const Tensor y = apply(x, weight, bias), dy = numbers(y.shape(), 4).to(half);
      y.backward(dy);
      apply(x.to(f64), weight.to(f64), bias64).backward(dy.to(f64));
      expect_f32_gradient(bias, bias64, kNotRounded, "bias");
    }
}

TEST(AutocastVectors, OutsideOfAScopeABiasHasTheDtypeOfTheImages) {
  const Tensor x = numbers({1, 3, 8, 9}, 1).to(DType::bf16),
               weight = numbers({3, 3, 3, 3}, 2).to(DType::bf16), bias = numbers({3}, 3);
  expect_error([&] { conv2d(x, weight, bias); }, {"conv2d: dtypes differ: bf16 and, of the bias, f32"});
  expect_error([&] { conv_transpose2d(x, weight, bias); },
               {"conv_transpose2d: dtypes differ: bf16 and, of the bias, f32"});
}

TEST(AutocastVectors, BiasOfPatchesIsReadInF32) {
  for (DType half : kHalves) {
    const Tensor x = numbers({2, 3, 8, 12}, 1), weight = leaf({5, 3, 4, 4}, 2), bias = leaf({5}, 3);
    Tensor y;
    {
      amp::Autocast scope(test_device(), half);
      y = patch_embed(x, weight, bias, {.out = f32});
    }
    const Tensor dy = halves(y.shape(), 4, half), weight64 = rounded(weight, half), bias64 = wide(bias);
    y.backward(dy);
    const Tensor want = composite::patch_embed(rounded(x, half), weight64, bias64);
    want.backward(dy.to(f64));
    EXPECT_LT(distance(y, want), kNotRounded) << half;
    expect_f32_gradient(weight, weight64, kNotRounded, "weight");
    expect_f32_gradient(bias, bias64, kNotRounded, "bias");
  }
}

TEST(AutocastVectors, GradientsOfFactorsComeOutOfMatmulInF32) {
  for (DType half : kHalves) {
    const Tensor a = leaf({4, 9, 40}, 1), b = leaf({4, 40, 12}, 2);
    Tensor y;
    {
      amp::Autocast scope(test_device(), half);
      y = matmul(a, b);
    }
    const Tensor dy = halves(y.shape(), 3, half);
    y.backward(dy.to(half));
    const Tensor a64 = rounded(a, half), b64 = rounded(b, half);
    matmul(a64, b64).backward(dy.to(f64));
    expect_f32_gradient(a, a64, kNotRounded, "a");
    expect_f32_gradient(b, b64, kNotRounded, "b");
  }
}

// One matrix for all of a batch: its gradient is a sum over the batch as well.
TEST(AutocastVectors, AMatrixForManyHasItsGradientSummedInF32) {
  for (DType half : kHalves)
    for (bool is_main : {false, true}) {
      const Tensor a = numbers({4, 9, 40}, 1), left = numbers({4, 7, 9}, 4);
      Tensor b = numbers({40, 12}, 2), c = numbers({9, 12}, 3);
      if (is_main) b = b.to(half), c = c.to(half);
      for (const Tensor& x : {b, c}) x.set_requires_grad().set_grad_dtype(f32);
      auto loss = [&](const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& v) {
        const Tensor first = matmul(x, w), second = matmul(y, v);
        return TensorList{first, second};
      };
      amp::Autocast scope(test_device(), half);
      const TensorList got = loss(a.to(half), b, left.to(half), expand(c, {9, 12}));
      const Tensor b64 = rounded(b, half), c64 = rounded(c, half);
      const TensorList want = loss(rounded(a, half), b64, rounded(left, half), c64);
      for (size_t i = 0; i < 2; ++i) {
        const Tensor dy = halves(got[i].shape(), 5 + i, half);
        got[i].backward(dy.to(half));
        want[i].backward(dy.to(f64));
      }
      expect_f32_gradient(b, b64, kNotRounded, "b");
      EXPECT_EQ(c.grad().dtype(), f32);
      EXPECT_LT(distance(c.grad(), c64.grad()), 0.01) << "c is behind a view, whose gradient has 16 bits";
    }
}

// 16 bits in, f32 out: no f32 copy of what is summed is made, on the way back neither.
TEST(AutocastVectors, SumReadsSixteenBitsWithoutACopy) {
  for (DType half : kHalves) {
    const Tensor x = numbers({300, 400}, 1).to(half).set_requires_grad();
    Allocator& memory = allocator(test_device());
    amp::Autocast scope(test_device(), half);
    const size_t before = memory.stats().held;
    memory.reset_peaks();
    testing::CountCasts count;
    const Tensor y = sum(x, {1});
    EXPECT_EQ(count.casts, 0);
    EXPECT_LT(memory.stats().peak_held - before, size_t(300 * 400)) << "a copy in f32 has four times as much";
    EXPECT_EQ(y.dtype(), f32);
    EXPECT_LT(distance(y, sum(x.detach().to(f64), {1})), 1e-6) << half;
    const Tensor dy = numbers({300}, 2), dx = grad({y}, {x}, {dy})[0];
    EXPECT_EQ(dx.dtype(), half);
    EXPECT_TRUE(
        testing::same_bits(dx.contiguous(), expand(unsqueeze(dy.to(half), 1), {300, 400}).contiguous()));
  }
}

}  // namespace
}  // namespace reprise
