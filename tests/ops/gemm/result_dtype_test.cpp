// Products and cross-entropy that write the dtype they are asked for: of f32 the bits of the operation and a cast, of 16
// bits the sums of f32, which are not rounded to 16 bits before.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/on_gpu.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::same_bits;
using testing::test_device;

constexpr DType kHalves[] = {DType::bf16, DType::f16};

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype) {
  Generator generator(seed);
  return randn(shape, DType::f32, Device::cpu(), &generator).to(dtype).to(test_device());
}

using Call = std::function<Tensor(const TensorList& in, std::optional<DType> out)>;
struct Product {
  const char* name;
  std::vector<Shape> inputs;
  Call call;
};

const std::vector<Product>& products() {
  static const std::vector<Product> all = {
      {"linear",
       {{2, 5, 24}, {17, 24}, {17}},
       [](auto& in, auto out) { return linear(in[0], in[1], in[2], {.out = out}); }},
      {"linear with an epilogue",
       {{2, 5, 24}, {17, 24}, {17}, {2, 5, 17}, {17}},
       [](auto& in, auto out) {
         const LinearEpilogue end{Activation::gelu_tanh, in[3], in[4], {}, out};
         return linear(in[0], in[1], in[2], end);
       }},
      {"mlp",
       {{3, 8}, {24, 8}, {24}, {9, 24}, {9}, {3, 9}},
       [](auto& in, auto out) {
         return mlp(in[0], in[1], in[2], in[3], in[4], Activation::relu, {.residual = in[5], .out = out});
       }},
      {"matmul", {{7, 24}, {24, 9}}, [](auto& in, auto out) { return matmul(in[0], in[1], {out}); }},
      {"matmul of many rows",
       {{2, 3, 24}, {24, 9}},
       [](auto& in, auto out) { return matmul(in[0], in[1], {out}); }},
      {"matmul, batched",
       {{2, 3, 24}, {2, 24, 9}},
       [](auto& in, auto out) { return matmul(in[0], in[1], {out}); }},
      {"patch_embed",
       {{2, 3, 4, 6}, {5, 3, 2, 2}, {5}},
       [](auto& in, auto out) { return patch_embed(in[0], in[1], in[2], {out}); }},
  };
  return all;
}

struct Results {
  Tensor output;
  TensorList grads;
};

/// The gradient of the output is `dy`.
Results run(const TensorList& given, const Tensor& dy, const std::function<Tensor(const TensorList&)>& call) {
  TensorList in;
  for (const Tensor& x : given) in.push_back(x.detach().set_requires_grad());
  Results result{call(in), {}};
  backward({result.output}, {dy});
  for (const Tensor& x : in) result.grads.push_back(x.grad());
  return result;
}

void expect_same(const Results& got, const Results& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.output.detach(), want.output.detach())) << what;
  EXPECT_TRUE(same_bits(got.grads, want.grads)) << what;
}

TensorList inputs_of(const Product& product, DType dtype) {
  TensorList in;
  for (const Shape& shape : product.inputs) in.push_back(numbers(shape, in.size() + 1, dtype));
  return in;
}

TEST(FusedCast, ProductOfF32HasTheBitsOfOpAndCast) {
  for (const Product& product : products())
    for (DType out : kHalves) {
      const TensorList in = inputs_of(product, DType::f32);
      const Tensor dy = numbers(product.call(in, {}).shape(), 11, out);
      const Results got = run(in, dy, [&](const TensorList& x) { return product.call(x, out); });
      const Results want = run(in, dy, [&](const TensorList& x) { return product.call(x, {}).to(out); });
      EXPECT_EQ(got.output.dtype(), out);
      expect_same(got, want, detail::join(product.name, " to ", out));
    }
}

// Rounded to 16 bits it is what the operation gives without `out`; the gradients are those of a dy rounded to what the
// products read.
TEST(FusedCast, ProductOfSixteenBitsInF32IsNotRounded) {
  for (const Product& product : products())
    for (DType half : kHalves) {
      const TensorList in = inputs_of(product, half);
      const Tensor dy = numbers(product.call(in, {}).shape(), 11, half);
      const Results got =
          run(in, dy.to(DType::f32), [&](const TensorList& x) { return product.call(x, DType::f32); });
      const std::string what = detail::join(product.name, " of ", half);
      ASSERT_EQ(got.output.dtype(), DType::f32) << what;
      EXPECT_FALSE(same_bits(got.output.detach(), got.output.detach().to(half).to(DType::f32)))
          << what << ": rounded";
      const Results want = run(in, dy, [&](const TensorList& x) { return product.call(x, {}); });
      Results rounded{got.output.detach().to(half), got.grads};
      // cuBLASLt may round a sum before it adds the residual, where it adds that itself.
      if (testing::on_gpu()) {
        const double roundings = 2 * testing::unit_roundoff(half);
        EXPECT_TRUE(is_close(got.output.detach(), want.output.detach().to(DType::f32), roundings)) << what;
        rounded.output = want.output;
      }
      expect_same(rounded, want, what);
      const DType other = half == DType::bf16 ? DType::f16 : DType::bf16;
      EXPECT_TRUE(same_bits(product.call(in, other), got.output.detach().to(other)))
          << what << " to " << other;
      if (product.name == std::string("mlp")) continue;  // its first layer's result is rounded to 16 bits
      TensorList wide;
      for (const Tensor& x : in) wide.push_back(x.to(DType::f64));
      // Sums of 24 terms in f32, in any order, and an activation.
      EXPECT_TRUE(is_close(got.output.detach().to(DType::f64), product.call(wide, {}),
                           64 * testing::unit_roundoff(DType::f32)))
          << what;
    }
}

TEST(FusedCast, ProductsDifferentiateTwice) {
  for (const Product& product : products())
    for (DType out : kHalves) {
      const TensorList given = inputs_of(product, DType::f32);
      auto penalty = [&](bool fused) {
        TensorList in = given;
        in[0] = given[0].detach().set_requires_grad(), in[1] = given[1].detach().set_requires_grad();
        const Tensor y = fused ? product.call(in, out) : product.call(in, {}).to(out);
        const Tensor dx = grad({y}, {in[0]}, {numbers(y.shape(), 3, out)}, {.create_graph = true})[0];
        return grad({sum(square(dx))}, {in[1]})[0];
      };
      EXPECT_TRUE(is_close(penalty(true), penalty(false), 64 * testing::unit_roundoff(DType::f32)))
          << product.name << " to " << out;
    }
}

// The table casts what a product reads, `out` is its result's alone.
TEST(FusedCast, OutOfAProductHoldsUnderAutocast) {
  for (const Product& product : products()) {
    if (product.inputs.size() > 3) continue;  // a residual is not cast
    const TensorList in = inputs_of(product, DType::f32);
    Tensor got, want;
    {
      amp::Autocast scope(test_device(), DType::bf16);
      got = product.call(in, DType::f32);
    }
    TensorList cast_in;
    for (const Tensor& x : in) cast_in.push_back(x.to(DType::bf16));
    EXPECT_EQ(got.dtype(), DType::f32) << product.name;
    amp::Autocast scope(test_device(), DType::bf16);
    if (in.size() == 3) cast_in[2] = in[2];  // a bias is read in f32
    EXPECT_TRUE(same_bits(got, product.call(cast_in, DType::f32))) << product.name;
  }
}

TEST(FusedCast, CrossEntropyHasTheBitsOfOpAndCast) {
  const Tensor labels = Tensor::from<int64_t>({4, 0, -100, 2, 2, 1}, {6}).to(test_device());
  const Tensor probabilities = softmax(numbers({6, 5}, 4, DType::f32));
  for (const Tensor& targets : {labels, probabilities})
    for (Reduction reduction : {Reduction::mean, Reduction::none})
      for (DType half : kHalves) {
        const Tensor logits = numbers({6, 5}, 1, DType::f32);
        const Shape shape = reduction == Reduction::none ? Shape{6} : Shape{};
        auto loss = [&](const TensorList& in, std::optional<DType> out) {
          return cross_entropy(in[0], targets, {.reduction = reduction, .out = out});
        };
        const Tensor dy = numbers(shape, 11, half);
        expect_same(run({logits}, dy, [&](const TensorList& in) { return loss(in, half); }),
                    run({logits}, dy, [&](const TensorList& in) { return loss(in, {}).to(half); }),
                    detail::join("f32 to ", half));
        // Of 16 bits f32 is what autocast gives.
        const Tensor narrow = logits.to(half), wide_dy = numbers(shape, 11, DType::f32);
        const Results got =
            run({narrow}, wide_dy, [&](const TensorList& in) { return loss(in, DType::f32); });
        EXPECT_EQ(got.output.dtype(), DType::f32);
        EXPECT_EQ(got.grads[0].dtype(), half);
        expect_same(got,
                    run({narrow}, wide_dy,
                        [&](const TensorList& in) {
                          amp::Autocast scope(test_device(), half);
                          return loss(in, {});
                        }),
                    detail::join(half, " to f32"));
      }
}

// The gradient of sum (d loss / d logits)^2, beside that of the composite in f64.
TEST(FusedCast, CrossEntropyDifferentiatesTwice) {
  const Tensor targets = Tensor::from<int64_t>({4, 0, -100, 2, 2, 1}, {6}).to(test_device());
  const auto penalty = [](const Tensor& logits, const std::function<Tensor(const Tensor&)>& loss) {
    const Tensor in = logits.detach().set_requires_grad();
    const Tensor dx = grad({loss(in)}, {in}, {}, {.create_graph = true})[0];
    return grad({sum(square(dx.to(DType::f32)))}, {in})[0];
  };
  for (DType half : kHalves)
    for (bool is_narrow : {true, false}) {  // 16-bit logits to an f32 loss, and the other way round
      const Tensor logits = numbers({6, 5}, 1, is_narrow ? half : DType::f32);
      const DType out = is_narrow ? DType::f32 : half;
      const Tensor got =
          penalty(logits, [&](const Tensor& in) { return cross_entropy(in, targets, {.out = out}); });
      const Tensor in = logits.to(DType::f64).detach().set_requires_grad();
      const Tensor dx =
          grad({composite::cross_entropy(in, targets, {})}, {in}, {}, {.create_graph = true})[0];
      const Tensor want = grad({sum(square(dx))}, {in})[0];
      EXPECT_EQ(got.dtype(), logits.dtype());
      // In the scale of the largest: where logits have 16 bits dx is rounded to them, and so is the result.
      const double scale = max(abs(want)).item();
      const double roundoff = testing::unit_roundoff(is_narrow ? half : DType::f32);
      EXPECT_TRUE(is_close(got.to(DType::f64) / scale, want / scale, 4 * roundoff))
          << logits.dtype() << " to " << out;
    }
}

TEST(FusedCast, ProductsRefuseDtypesThatDoNotFit) {
  const Tensor x = numbers({4, 4}, 1, DType::f32), wide = x.to(DType::f64);
  expect_error([&] { linear(x, x, {}, {.out = DType::f64}); },
               "linear: out is f64, which does not fit an input in f32");
  expect_error([&] { matmul(wide, wide, {.out = DType::bf16}); },
               "matmul: out is bf16, which does not fit an input in f64");
  expect_error([&] { mlp(x, x, {}, x, {}, Activation::relu, {.out = DType::i64}); },
               "mlp: out is i64, which does not fit an input in f32");
  expect_error(
      [&] {
        patch_embed(numbers({1, 1, 4, 4}, 1, DType::f32), numbers({2, 1, 2, 2}, 1, DType::f32), {},
                    {DType::f64});
      },
      "patch_embed: out is f64, which does not fit an input in f32");
  expect_error([&] { cross_entropy(x, zeros({4}, DType::i64, test_device()), {.out = DType::f64}); },
               "cross_entropy: out is f64, which does not fit an input in f32");
}

}  // namespace
}  // namespace reprise
