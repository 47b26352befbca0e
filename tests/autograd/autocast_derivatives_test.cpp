// Second derivatives of what autocast computes in 16 bits, against f64; and what checks gradients inside of a scope.
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using amp::Autocast;
using testing::expect_error;
using testing::numbers;
using testing::test_device;

constexpr DType f32 = DType::f32, f64 = DType::f64;

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Tensor(const TensorList&)> op;
};

// One of each operation whose factors are cast, but linear.
std::vector<Case> cases() {
  return {
      {"linear with all of its epilogue",
       {{6, 8}, {5, 8}, {5}, {6, 5}, {5}},
       [](const TensorList& in) {
         return linear(in[0], in[1], in[2],
                       {.activation = Activation::gelu, .residual = in[3], .scale = in[4]});
       }},
      {"mlp",
       {{6, 8}, {7, 8}, {7}, {5, 7}, {5}, {6, 5}, {5}},
       [](const TensorList& in) {
         return mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu, {.residual = in[5], .scale = in[6]});
       }},
      {"matmul", {{2, 5, 8}, {8, 6}}, [](const TensorList& in) { return matmul(in[0], in[1]); }},
      {"matmul of batches",
       {{2, 5, 8}, {2, 8, 6}},
       [](const TensorList& in) { return matmul(in[0], in[1]); }},
      {"conv2d",
       {{2, 3, 5, 5}, {4, 3, 3, 3}, {4}},
       [](const TensorList& in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); }},
      {"conv_transpose2d",
       {{2, 3, 4, 4}, {3, 4, 2, 2}, {4}},
       [](const TensorList& in) { return conv_transpose2d(in[0], in[1], in[2], {.stride = 2}); }},
      {"patch_embed",
       {{2, 3, 4, 6}, {5, 3, 2, 2}, {5}},
       [](const TensorList& in) { return patch_embed(in[0], in[1], in[2]); }},
      {"attention",
       {{2, 2, 6, 8}, {2, 2, 6, 8}, {2, 2, 6, 8}},
       [](const TensorList& in) { return attention(in[0], in[1], in[2], {.causal = true}); }},
      {"packed_attention",
       {{2, 6, 48}},
       [](const TensorList& in) { return packed_attention(in[0], 2, {.causal = true}); }},
      {"masked_attention",
       {{2, 2, 6, 8}, {2, 2, 6, 8}, {2, 2, 6, 8}, {2, 2, 6, 6}},
       [](const TensorList& in) { return masked_attention(in[0], in[1], in[2], in[3]); }},
  };
}

TensorList inputs_of(const Case& c, DType dtype) {
  TensorList inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back((numbers(c.shapes[i], 10 + i) * 0.5).detach().to(dtype).set_requires_grad());
  return inputs;
}

// The gradients of |dy/dx0|^2, y = f(x), for all of x that have any.
TensorList second_derivatives(const Case& c, DType dtype) {
  const TensorList in = inputs_of(c, dtype);
  const Tensor y = sum(square(c.op(in)));
  const Tensor dx = grad({y}, {in[0]}, {}, {.create_graph = true})[0];
  return grad({sum(square(dx))}, in, {}, {.allow_unused = true});
}

TEST(AutocastDerivatives, DifferentiatesTwice) {
  for (const Case& c : cases()) {
    const TensorList want = second_derivatives(c, f64);
    const Autocast scope(test_device(), DType::bf16);
    const TensorList got = second_derivatives(c, f32);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].defined(), want[i].defined()) << c.name << ", input " << i;
      if (!got[i].defined()) continue;
      EXPECT_EQ(got[i].dtype(), f32) << c.name << ", input " << i;
      const double off =
          std::sqrt(sum(square(got[i].to(f64) - want[i])).item() / sum(square(want[i])).item());
      EXPECT_LT(off, 0.05) << c.name << ", input " << i;  // roundings of 2^-9, one on the other
      EXPECT_GT(off, 1e-5) << c.name << ", input " << i << ": nothing was rounded";
    }
  }
}

// f64 is never cast: a scope changes no bit of it, and central differences work.
TEST(AutocastDerivatives, GradcheckIsNotCast) {
  for (const Case& c : cases()) {
    const auto op = [&](const TensorList& in) { return TensorList{c.op(in)}; };
    const TensorList inputs = inputs_of(c, f64);
    const Tensor want = c.op(inputs);
    const Autocast scope(test_device(), DType::bf16);
    EXPECT_TRUE(testing::same_bits(c.op(inputs).detach(), want.detach())) << c.name;
    EXPECT_TRUE(gradcheck(op, inputs)) << c.name;
  }
}

TEST(AutocastDerivatives, AnomalyModeNamesTheOperationThatWasCast) {
  const AnomalyMode anomaly;
  const Tensor x = numbers({3, 4}, 1).set_requires_grad(), weight = numbers({4, 4}, 2).set_requires_grad();
  Tensor good, bad;
  {
    const Autocast scope(test_device(), DType::bf16);
    good = sum(linear(x, weight));
    bad = sum(sqrt(relu(linear(x, weight) * 0.0)));  // whose derivative is infinite, times 0
  }
  good.backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_EQ(weight.grad().dtype(), f32);
  expect_error([&] { bad.backward(); }, {"sqrt"});
}

}  // namespace
}  // namespace reprise
