// A residual sum with its normalisation, against the two operations.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::same_bits;

constexpr double kEps = 1e-5;

// Both results matter, each by the other.
Tensor product(const SumAndNorm& both) { return both.sum * both.norm; }

TEST(AddNorm, PassesEveryCheckOfAnOp) {
  check_op(OpCase{
      .name = "add_layer_norm",
      .inputs = {{{2, 3, 7}}, {{2, 3, 7}}, {{7}, 0.5, 1.5}, {{7}}},
      .fn = [](const TensorList& in) { return product(add_layer_norm(in[0], in[1], in[2], in[3], kEps)); },
      .composite =
          [](const TensorList& in) {
            Tensor sum = in[0] + in[1];
            return sum * composite::layer_norm(sum, in[2], in[3], kEps);
          },
      .roundings = 32,  // layer_norm's, and of the sum and the product; results reach 10
      .empty_inputs = {{{0, 7}}, {{0, 7}}, {{7}}, {{7}}},
      .large_inputs = {{{301, 129}}, {{301, 129}}, {{129}}, {{129}}}});
  check_op(OpCase{.name = "add_rms_norm",
                  .inputs = {{{2, 3, 7}}, {{2, 3, 7}}, {{7}, 0.5, 1.5}},
                  .fn = [](const TensorList& in) { return product(add_rms_norm(in[0], in[1], in[2], kEps)); },
                  .composite =
                      [](const TensorList& in) {
                        Tensor sum = in[0] + in[1];
                        return sum * composite::rms_norm(sum, in[2], kEps);
                      },
                  .roundings = 32,
                  .empty_inputs = {{{0, 7}}, {{0, 7}}, {{7}}},
                  .large_inputs = {{{301, 129}}, {{301, 129}}, {{129}}}});
}

TEST(AddNorm, HasTheBitsOfTheTwoOperations) {
  const Device device = testing::test_device();
  for (DType dtype : {DType::f32, DType::bf16}) {
    auto run = [&](bool fused) {
      manual_seed(4);
      TensorList in;
      for (const Shape& shape : {Shape{5, 33}, Shape{5, 33}, Shape{33}, Shape{33}})
        in.push_back(rand(shape, DType::f32, device).to(dtype).detach().set_requires_grad());
      Tensor sum, norm;
      if (fused) {
        SumAndNorm both = add_layer_norm(in[0], in[1], in[2], in[3], kEps);
        sum = both.sum, norm = both.norm;
      } else {
        sum = in[0] + in[1], norm = layer_norm(sum, in[2], in[3], kEps);
      }
      (sum + gelu(norm) * sum).sum().backward();
      TensorList out{sum.detach(), norm.detach()};
      for (const Tensor& x : in) out.push_back(x.grad());
      return out;
    };
    TensorList got = run(true), want = run(false);
    EXPECT_TRUE(same_bits(got, want)) << dtype;
  }
}

TEST(AddNorm, OfOneResultAloneNeedsNotTheOther) {
  Tensor x = rand({3, 5}).set_requires_grad(), residual = rand({3, 5});
  add_layer_norm(x, residual, {}, {}).sum.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(15, 1.0f));
  EXPECT_FALSE(residual.grad().defined());
}

TEST(AddNorm, RefusesWhatDoesNotFit) {
  Tensor x = zeros({3, 5});
  expect_error([&] { add_layer_norm(x, zeros({5}), {}, {}); }, {"add_layer_norm", "(5,)", "(3, 5)"});
  expect_error([&] { add_rms_norm(x, zeros({3, 5}, DType::f64), {}); }, {"add_rms_norm", "f64"});
  expect_error([&] { add_layer_norm(x, x, ones({4}), {}); }, {"add_layer_norm", "(4,)"});
}

}  // namespace
}  // namespace reprise
