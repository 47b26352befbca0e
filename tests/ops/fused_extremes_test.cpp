// Fused operations under create_graph on inputs that their simple formulas would overflow on: gradients
// against the composite in f64.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::is_close;
using testing::test_device;
using testing::unit_roundoff;
using Fn = std::function<Tensor(const TensorList&)>;

TensorList in_dtype(const TensorList& numbers, DType dtype) {
  TensorList made;
  for (const Tensor& x : numbers) made.push_back(x.to(dtype).to(test_device()).detach().set_requires_grad());
  return made;
}

/// The gradients of `fn` in `dtype`, plain and under create_graph, beside those of `oracle` in f64.
void expect_gradients(const char* name, DType dtype, const Fn& fn, const Fn& oracle, const TensorList& given,
                      double roundings = 32) {
  TensorList numbers;
  for (const Tensor& x : given) numbers.push_back(x.to(dtype).to(DType::f64));
  TensorList exact = in_dtype(numbers, DType::f64);
  TensorList want = grad({oracle(exact).sum()}, exact);
  for (bool create_graph : {false, true}) {
    TensorList inputs = in_dtype(numbers, dtype);
    Tensor y = fn(inputs);
    TensorList got =
        grad({y}, inputs, {ones(y.shape(), y.dtype(), y.device())}, {.create_graph = create_graph});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(is_close(got[i].detach(), want[i], roundings * unit_roundoff(dtype)))
          << name << " " << dtype << (create_graph ? " create_graph" : "") << ", gradient of input " << i;
  }
}

Tensor row(const std::vector<double>& values) { return Tensor::from(values, {1, int64_t(values.size())}); }

TEST(FusedExtremes, NormsOfRowsBeyondTheSquareRootOfF16) {
  Tensor x = row({300, -2, 1000, 60000, -500, 7}), gamma = Tensor::from<double>({1, 2, 0.5, 1, -1, 3}, {6});
  Tensor beta = Tensor::from<double>({0, 1, 2, 3, 4, 5}, {6});
  auto rms = [](const TensorList& in) { return rms_norm(in[0], in[1]); };
  auto layer = [](const TensorList& in) { return layer_norm(in[0], in[1], in[2]); };
  auto fused = [](const TensorList& in) { return add_layer_norm(in[0], in[0] * 0.0, in[1], in[2]).norm; };
  auto channels = [](const TensorList& in) {
    return batch_norm(in[0].reshape({6, 1}), in[1].slice(0, 0, 1), in[2].slice(0, 0, 1), {}, {},
                      {.training = true});
  };
  auto rms64 = [](const TensorList& in) { return composite::rms_norm(in[0], in[1], 1e-6); };
  auto layer64 = [](const TensorList& in) { return composite::layer_norm(in[0], in[1], in[2], 1e-5); };
  auto channels64 = [](const TensorList& in) {
    return composite::batch_norm(in[0].reshape({6, 1}), in[1].slice(0, 0, 1), in[2].slice(0, 0, 1), {}, {},
                                 1e-5);
  };
  for (DType dtype : {DType::f16, DType::bf16}) {
    expect_gradients("rms_norm", dtype, rms, rms64, {x, gamma});
    expect_gradients("layer_norm", dtype, layer, layer64, {x, gamma, beta});
    expect_gradients("add_layer_norm", dtype, fused, layer64, {x, gamma, beta});
    expect_gradients("batch_norm", dtype, channels, channels64, {x, gamma, beta});
    expect_gradients("composite::rms_norm", dtype, rms64, rms64, {x, gamma});
    expect_gradients("composite::layer_norm", dtype, layer64, layer64, {x, gamma, beta});
  }
}

TEST(FusedExtremes, ActivationsFarOut) {
  Tensor far =
      Tensor::from<double>({-60000, -500, -100, -89, -41, -12, -11.1, 0, 41, 100, 500, 60000}, {12, 1});
  Tensor one = Tensor::from<double>({1}, {1, 1});
  for (Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    auto fused = [=](const TensorList& in) {
      return linear(in[0], ones({1, 1}, in[0].dtype(), in[0].device()), {}, {.activation = activation});
    };
    auto two = [=](const TensorList& in) {
      Tensor weight = ones({1, 1}, in[0].dtype(), in[0].device());
      return mlp(in[0], weight, {}, weight, {}, activation);
    };
    auto alone = [=](const TensorList& in) { return activate(in[0], activation); };
    auto simple = [=](const TensorList& in) { return composite::activate(in[0], activation); };
    for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      expect_gradients("linear", dtype, fused, simple, {far});
      expect_gradients("mlp", dtype, two, simple, {far});
      expect_gradients("activate", dtype, alone, simple, {far});
      expect_gradients("composite::activate", dtype, simple, simple, {far});
    }
  }
}

TEST(FusedExtremes, GatesFarOut) {
  Tensor gate = row({-500, -100, -88.8, -12, -11.2, 0, 11, 100, 500});
  Tensor up = row({1, -2, 3, 1, 2, 3, 1, 1, 2});
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
    expect_gradients(
        "swiglu", dtype, [](const TensorList& in) { return swiglu(in[0], in[1]); },
        [](const TensorList& in) { return in[0] * sigmoid(in[0]) * in[1]; }, {gate, up});
}

// Scores of 16 * 100 * 100 * 1/4 and their sums before the scale lie beyond f16.
TEST(FusedExtremes, AttentionOfLargeScores) {
  Tensor q = full({1, 1, 3, 16}, 100, DType::f64), k = full({1, 1, 3, 16}, 100, DType::f64);
  Generator generator(3);
  Tensor v = randn({1, 1, 3, 16}, DType::f64, {}, &generator);
  expect_gradients(
      "attention", DType::f16,
      [](const TensorList& in) { return attention(in[0], in[1], in[2], {.causal = true}); },
      [](const TensorList& in) { return composite::attention(in[0], in[1], in[2], {.causal = true}); },
      {q, k, v}, 256);
}

TEST(FusedExtremes, SoftmaxOfGradientsWhoseSumLeavesF16) {
  Tensor x = row({1, 2, 3, 4});
  auto scaled = [](auto fn) {
    return [fn](const TensorList& in) {
      return fn(in[0]) * cast(row({40000, 30000, -20000, 50000}), in[0].dtype()).to(in[0].device());
    };
  };
  expect_gradients("softmax", DType::f16, scaled([](const Tensor& z) { return softmax(z); }),
                   scaled(&composite::softmax), {x});
  expect_gradients("log_softmax", DType::f16, scaled([](const Tensor& z) { return log_softmax(z); }),
                   scaled(&composite::log_softmax), {x});
}

TEST(FusedExtremes, CrossEntropyOfMaskedLogits) {
  Tensor logits = row({1, -INFINITY, 2, 3}), target = Tensor::from<int64_t>({2}, {1});
  auto fused = [&](const TensorList& in) { return cross_entropy(in[0], target.to(in[0].device())); };
  auto simple = [&](const TensorList& in) {
    return composite::cross_entropy(in[0], target.to(in[0].device()), {});
  };
  auto loops = [](const TensorList& in) {  // log(e^1 + e^2 + e^3) - 2
    Tensor kept = concat({in[0].slice(1, 0, 1), in[0].slice(1, 2, 4)}, 1);
    return log(sum(exp(kept))) - in[0].select(1, 2);
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    expect_gradients("cross_entropy", dtype, fused, loops, {logits});
    expect_gradients("composite::cross_entropy", dtype, simple, loops, {logits});
  }
}

}  // namespace
}  // namespace reprise
