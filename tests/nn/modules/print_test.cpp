// Tensors and modules as text, against what is written here by hand.
#include "reprise/nn/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "reprise/autograd/ops.h"
#include "reprise/nn/activations.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

TEST(Print, TensorsOfAnyRankAndDtype) {
  std::ostringstream out;
  out << Tensor::from<float>({1.5, -2, 3, 4, 1e-7f, 123456}, {2, 3});
  EXPECT_EQ(out.str(), "[[1.5, -2, 3],\n [4, 1e-07, 1.2346e+05]] f32(2, 3) on cpu");
  EXPECT_EQ(to_string(Tensor::from<int64_t>({1, 1234567890123, -3, 4}, {2, 1, 2})),
            "[[[1, 1234567890123]],\n [[-3, 4]]] i64(2, 1, 2) on cpu");
  EXPECT_EQ(to_string(scalar(2.5)), "2.5 f32() on cpu");
  EXPECT_EQ(to_string(Tensor::from<uint8_t>({1, 0}, {2}).to(DType::boolean)),
            "[true, false] bool(2,) on cpu");
  EXPECT_EQ(to_string(Tensor::from<double>({NAN, -NAN, INFINITY, -INFINITY}, {4})),
            "[nan, nan, inf, -inf] f64(4,) on cpu");
  EXPECT_EQ(to_string(zeros({0, 3})), "[] f32(0, 3) on cpu");
  EXPECT_EQ(to_string(Tensor()), "undefined");
  EXPECT_EQ(to_string(full({1}, 1.0 / 3), {.digits = 3}), "[0.333] f32(1,) on cpu");
  EXPECT_EQ(to_string(full({1}, 0.5, DType::bf16).set_requires_grad()), "[0.5] bf16(1,) on cpu");
  testing::expect_error([] { to_string(zeros({1}), {.edge = 0}); }, "to_string: edge and digits");
}

TEST(Print, LargeTensorsByTheirEdges) {
  EXPECT_EQ(to_string(arange(2000)), "[0, 1, 2, ..., 1997, 1998, 1999] i64(2000,) on cpu");
  const Tensor x = arange(12).reshape({6, 2}).transpose(0, 1);  // 0 2 4 6 8 10; 1 3 5 7 9 11
  EXPECT_EQ(to_string(x, {.most = 11, .edge = 2}),
            "[[0, 2, ..., 8, 10],\n [1, 3, ..., 9, 11]] i64(2, 6) on cpu");
  EXPECT_EQ(to_string(x, {.most = 12, .edge = 2}),
            "[[0, 2, 4, 6, 8, 10],\n [1, 3, 5, 7, 9, 11]] i64(2, 6) on cpu");
  EXPECT_EQ(to_string(arange(30).reshape({6, 5}), {.most = 1, .edge = 1}),
            "[[0, ..., 4],\n ...,\n [25, ..., 29]] i64(6, 5) on cpu");
}

TEST(Print, OfWhereverATensorIs) {
  const Tensor x = arange(3).to(testing::test_device());
  EXPECT_EQ(to_string(x), detail::join("[0, 1, 2] i64(3,) on ", testing::test_device()));
}

struct Net : nn::Module {
  nn::Linear first{2, 3};
  nn::BatchNorm1d norm{3};
  Net() {
    register_module("first", first);
    register_module("norm", norm);
    first.freeze();
  }
};

TEST(Print, AModuleNamesWhatItHas) {
  std::ostringstream out;
  out << Net();
  const std::string text = out.str();
  EXPECT_NE(text.find("Net: 15 parameters\n  first.weight f32(3, 2), frozen\n  first.bias f32(3,), frozen\n"
                      "  norm.weight f32(3,)\n  norm.bias f32(3,)\n  norm.running_mean f32(3,), a buffer\n"),
            std::string::npos)
      << text;
}

TEST(Print, AModuleNamesItsLayersWithoutParameters) {
  nn::Sequential net;
  net.add<nn::Linear>(2, 3);
  net.add<nn::BatchNorm1d>(3);
  net.add<nn::Tanh>();
  auto& inner = net.add<nn::Sequential>();
  inner.add<nn::Dropout>(0.5);
  inner.add<nn::Linear>(3, 1, nn::LinearOptions{.bias = false});
  inner.add([](const Tensor& x) { return x; });
  net.add<nn::Softmax>(1);
  EXPECT_EQ(nn::to_string(net),
            "Sequential: 18 parameters\n  0.weight f32(3, 2)\n  0.bias f32(3,)\n"
            "  1.weight f32(3,)\n  1.bias f32(3,)\n  1.running_mean f32(3,), a buffer\n"
            "  1.running_var f32(3,), a buffer\n  1.num_batches_tracked i64(), a buffer\n"
            "  2 Tanh\n  3.0 Dropout\n  3.1.weight f32(1, 3)\n  3.2 Lambda\n  4 Softmax");
  EXPECT_EQ(nn::to_string(nn::Dropout(0.5)), "Dropout: 0 parameters");
}

// A parameter's own name may have dots, and a layer may stand in two places: each line is there once.
TEST(Print, AModuleOfAnyNames) {
  struct Odd : nn::Module {
    nn::Linear shared{2, 1, {.bias = false}};
    Tensor own = register_parameter("in.a.corner", zeros({2}));
    Odd() {
      register_module("a.b", shared);
      register_module("c", shared);
    }
  };
  const std::string text = nn::to_string(Odd());
  EXPECT_TRUE(text.ends_with(": 4 parameters\n  in.a.corner f32(2,)\n  a.b.weight f32(1, 2)")) << text;
}

}  // namespace
}  // namespace reprise
