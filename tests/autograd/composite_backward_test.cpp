// Fused operations under create_graph: whichever inputs require grad, and at a cost of their own part alone.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::is_close;

struct Fused {
  std::string name;
  std::vector<Shape> inputs;
  std::function<Tensor(const TensorList&)> fn, composite;
};

Tensor both(const SumAndNorm& pair) { return sin(pair.sum) * pair.norm; }

std::vector<Fused> fused_operations() {
  constexpr Activation act = Activation::gelu_tanh;
  using In = const TensorList&;
  return {
      {"linear",
       {{5, 3}, {7, 3}, {7}, {5, 7}},
       [](In x) { return linear(x[0], x[1], x[2], {.activation = Activation::gelu_tanh, .residual = x[3]}); },
       [](In x) {
         return composite::linear(x[0], x[1], x[2], {.activation = Activation::gelu_tanh, .residual = x[3]});
       }},
      {"mlp",
       {{5, 3}, {7, 3}, {7}, {3, 7}, {3}, {5, 3}},
       [](In x) { return mlp(x[0], x[1], x[2], x[3], x[4], act, {.residual = x[5]}); },
       [](In x) { return composite::mlp(x[0], x[1], x[2], x[3], x[4], act, {.residual = x[5]}); }},
      {"layer_norm",
       {{5, 3}, {3}, {3}},
       [](In x) { return layer_norm(x[0], x[1], x[2]); },
       [](In x) { return composite::layer_norm(x[0], x[1], x[2], 1e-5); }},
      {"rms_norm",
       {{5, 3}, {3}},
       [](In x) { return rms_norm(x[0], x[1]); },
       [](In x) { return composite::rms_norm(x[0], x[1], 1e-6); }},
      {"add_layer_norm",
       {{5, 3}, {5, 3}, {3}, {3}},
       [](In x) { return both(add_layer_norm(x[0], x[1], x[2], x[3])); },
       [](In x) {
         Tensor sum = x[0] + x[1];
         return both({sum, composite::layer_norm(sum, x[2], x[3], 1e-5)});
       }},
      {"add_rms_norm",
       {{5, 3}, {5, 3}, {3}},
       [](In x) { return both(add_rms_norm(x[0], x[1], x[2])); },
       [](In x) {
         Tensor sum = x[0] + x[1];
         return both({sum, composite::rms_norm(sum, x[2], 1e-6)});
       }},
      {"batch_norm",
       {{5, 3}, {3}, {3}},
       [](In x) { return batch_norm(x[0], x[1], x[2], {}, {}, {.training = true}); },
       [](In x) { return composite::batch_norm(x[0], x[1], x[2], {}, {}, 1e-5); }},
      {"swiglu",
       {{5, 3}, {5, 3}},
       [](In x) { return swiglu(x[0], x[1]); },
       [](In x) { return composite::swiglu(x[0], x[1]); }},
      {"conv2d",
       {{2, 3, 5, 5}, {7, 3, 3, 3}, {7}},
       [](In x) { return conv2d(x[0], x[1], x[2]); },
       [](In x) { return composite::conv2d(x[0], x[1], x[2], {}); }},
      {"attention",
       {{1, 2, 3, 5}, {1, 2, 3, 5}, {1, 2, 3, 5}},
       [](In x) { return attention(x[0], x[1], x[2], {.causal = true}); },
       [](In x) { return composite::attention(x[0], x[1], x[2], {.causal = true}); }},
  };
}

// Copies of `values`, of which those in `subset` are leaves that require grad.
TensorList leaves_of(const TensorList& values, unsigned subset) {
  TensorList leaves;
  for (size_t i = 0; i < values.size(); ++i) {
    leaves.push_back(values[i].clone());
    if (subset >> i & 1) leaves.back().set_requires_grad();
  }
  return leaves;
}

struct Gradients {
  TensorList first, second;  // of sum(y * weights), and of the sum of sines of these
};

Gradients gradients(const std::function<Tensor(const TensorList&)>& fn, const TensorList& values,
                    unsigned subset, bool create_graph) {
  TensorList leaves = leaves_of(values, subset), wanted;
  for (const Tensor& x : leaves)
    if (x.requires_grad()) wanted.push_back(x);
  Generator generator(3);
  Tensor y = fn(leaves), dy = randn(y.shape(), DType::f64, {}, &generator).set_requires_grad();
  Gradients out{.first = grad({y}, wanted, {dy}, {.create_graph = create_graph}), .second = {}};
  if (!create_graph) return out;
  Tensor total = scalar(0, DType::f64);
  for (const Tensor& g : out.first) total = total + sum(sin(g));
  wanted.push_back(dy);
  out.second = grad({total}, wanted, {}, {.allow_unused = true});
  return out;
}

TEST(FusedOperations, DifferentiateTwiceForEverySubsetOfInputsThatRequireGrad) {
  for (const Fused& op : fused_operations()) {
    Generator generator(1);
    TensorList values;
    for (const Shape& shape : op.inputs) values.push_back(randn(shape, DType::f64, {}, &generator));
    for (unsigned subset = 1; subset < 1u << values.size(); ++subset) {
      SCOPED_TRACE(op.name + ", subset " + std::to_string(subset));
      Gradients want = gradients(op.composite, values, subset, true);
      Gradients got = gradients(op.fn, values, subset, true);
      Gradients plain = gradients(op.fn, values, subset, false);
      for (size_t i = 0; i < want.first.size(); ++i) {
        EXPECT_TRUE(is_close(got.first[i], want.first[i], 1e-12)) << "gradient " << i;
        EXPECT_TRUE(is_close(plain.first[i], want.first[i], 1e-12)) << "plain gradient " << i;
      }
      for (size_t i = 0; i < want.second.size(); ++i) {
        if (!want.second[i].defined() && !got.second[i].defined()) continue;
        Tensor zero = zeros((want.second[i].defined() ? want.second : got.second)[i].shape(), DType::f64);
        EXPECT_TRUE(is_close(got.second[i].defined() ? got.second[i] : zero,
                             want.second[i].defined() ? want.second[i] : zero, 1e-11))
            << "second gradient " << i;
      }
    }
  }
}

TEST(CreateGraph, LooksAtAChainOfFusedOperationsOnce) {
  auto visited = [](int length) {
    Tensor x = ones({1, 4}, DType::f64).set_requires_grad(), y = x;
    for (int i = 0; i < length; ++i) y = rms_norm(y, {});
    uint64_t before = autograd::GraphTask::nodes_visited();
    grad({y.sum()}, {x}, {}, {.create_graph = true});
    return autograd::GraphTask::nodes_visited() - before;
  };
  uint64_t short_chain = visited(10), long_chain = visited(100);
  EXPECT_LE(long_chain, 11 * short_chain);
}

TEST(CompositeBackward, SaysWhatDoesNotFit) {
  auto in_composite = [](const std::function<TensorList(const TensorList&)>& fn, const TensorList& dy) {
    Tensor x = ones({3}).set_requires_grad();
    autograd::composite_backward(fn, {x}, dy);
  };
  auto same = [](const TensorList& in) { return TensorList{in[0] * 2.0}; };
  expect_error([&] { in_composite(same, {}); }, {"composite_backward", "1 outputs for 0 gradients"});
  expect_error([&] { in_composite(same, {ones({4})}); }, {"composite_backward", "(3,)", "(4,)"});
}

}  // namespace
}  // namespace reprise
