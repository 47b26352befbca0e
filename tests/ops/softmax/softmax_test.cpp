// Softmax and log-softmax against exp, sum and log.
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

TEST(Softmax, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "softmax",
                  .inputs = {{{2, 3, 7}}},
                  .fn = [](const TensorList& in) { return softmax(in[0]); },
                  .composite = [](const TensorList& in) { return composite::softmax(in[0]); },
                  .empty_inputs = {{{0, 7}}},
                  .large_inputs = {{{301, 257}}}});
}

TEST(LogSoftmax, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "log_softmax",
                  .inputs = {{{2, 3, 7}}},
                  .fn = [](const TensorList& in) { return log_softmax(in[0]); },
                  .composite = [](const TensorList& in) { return composite::log_softmax(in[0]); },
                  .roundings = 16,  // backward takes exp of an output already rounded in half types
                  .empty_inputs = {{{0, 7}}},
                  .large_inputs = {{{301, 257}}}});
}

TEST(Softmax, StaysFiniteForHugeLogits) {
  Tensor x = Tensor::from<float>({1e30f, 1e30f, -1e30f}, {1, 3});
  EXPECT_EQ(softmax(x).to_vector<double>(), (std::vector<double>{0.5, 0.5, 0}));
  EXPECT_FLOAT_EQ(float(log_softmax(x).to_vector<double>()[0]), -std::log(2.0f));
}

// Of one number, as PyTorch's along dimension 0 or -1; no part of the gradient is left.
TEST(Softmax, OfANumberIsOne) {
  const Tensor x = scalar(3, DType::f64).set_requires_grad();
  EXPECT_EQ(softmax(x).shape(), Shape{});
  EXPECT_EQ(softmax(x).item(), 1);
  EXPECT_EQ(log_softmax(x, {.out = DType::f64}).item(), 0);
  (softmax(x) + log_softmax(x)).backward();
  EXPECT_EQ(x.grad().item(), 0);
  expect_error([] { softmax(Tensor()); }, {"softmax"});
}

}  // namespace
}  // namespace reprise
