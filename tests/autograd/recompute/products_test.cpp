// An MLP at the end of a region: its replay multiplies again with less behind the product, as nobody wants its result. The
// pre-activation has the bits of the first run all the same, whatever a library's heuristic makes of each epilogue.
// also by cuBLASLt
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::kModes;
using testing::numbers;
using testing::same_bits;

struct Case {
  DType dtype;
  Activation activation;
  int64_t rows;  ///< even and odd: the model of cuBLASLt has no common algorithm for epilogues of odd ones
  bool residual;
};

struct Layers {
  Tensor x, weight1, bias1, weight2, bias2, residual;

  explicit Layers(const Case& c) {
    uint64_t seed = 0;
    auto leaf = [&](const Shape& shape) {
      return (numbers(shape, ++seed) * 0.3).to(c.dtype).set_requires_grad();
    };
    NoGrad guard;
    // The first columns and the next cancel: what is left of them is the rounding of sums, which shows their order.
    const Tensor large = leaf({c.rows, 16}) * 4096.0, shared = leaf({96, 16});
    x = concat({large, -large, leaf({c.rows, 16})}, 1).set_requires_grad();
    weight1 = concat({shared, shared, leaf({96, 16})}, 1).set_requires_grad();
    bias1 = leaf({96});
    weight2 = leaf({48, 96}), bias2 = leaf({48});
    if (c.residual) residual = leaf({c.rows, 48});
  }
};

template <class Run>
TensorList results_of(const Case& c, const Run& run) {
  Layers layers(c);
  Tensor y = run(layers);
  sum(square(y)).backward();
  TensorList results{y.detach()};
  for (const Tensor* x : {&layers.x, &layers.weight1, &layers.bias1, &layers.weight2, &layers.bias2})
    results.push_back(x->grad());
  return results;
}

void expect_same_bits(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.dtype << ", activation " << int(c.activation) << ", " << c.rows
                                    << " rows, residual " << c.residual);
  auto forward = [&](const Layers& of, const Tensor& x) {
    return mlp(x, of.weight1, of.bias1, of.weight2, of.bias2, c.activation, {.residual = of.residual});
  };
  const TensorList want = results_of(c, [&](const Layers& of) { return forward(of, of.x); });
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(testing::name_of(mode));
    const TensorList got = results_of(c, [&](const Layers& of) {
      return checkpoint([&](const Tensor& x) { return forward(of, x); }, of.x, {.mode = mode});
    });
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(CheckpointedProducts, KeepEveryBitOfAnMlpAtTheEndOfARegion) {
  for (DType dtype : {DType::bf16, DType::f32})
    for (Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu})
      for (int64_t rows : {6, 7})
        for (bool residual : {false, true}) expect_same_bits({dtype, activation, rows, residual});
}

}  // namespace
}  // namespace reprise
