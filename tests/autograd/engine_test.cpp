// The engine: accumulation, depth, retained and recorded graphs, restricted passes, failures, nesting,
// threads.
#include "reprise/autograd/engine.h"

#include <pthread.h>

#include <cmath>
#include <thread>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::same_bits;

Tensor leaf(std::vector<double> values) {
  int64_t count = int64_t(values.size());
  return Tensor::from(values, {count}).set_requires_grad();
}

double gradient_of(const Tensor& x) { return x.grad().to_vector<double>()[0]; }

// Runs `body` on a thread whose stack is 256 KiB.
void on_small_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t(256) << 10);
  pthread_t thread;
  auto call = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Engine, AddsTheGradientsOfEveryUse) {
  Tensor x = leaf({3});
  Tensor y = x * x + x * 2.0 + x;
  y.sum().backward();
  EXPECT_EQ(gradient_of(x), 9);  // 2 x + 2 + 1
}

TEST(Engine, AddsToGradientsThatAreThere) {
  Tensor x = leaf({3});
  square(x).sum().backward();
  square(x).sum().backward();
  EXPECT_EQ(gradient_of(x), 12);
}

TEST(Engine, RunsANodeOnceAfterAllItsGradientsHaveArrived) {
  Tensor x = leaf({2});
  Tensor shared = x * 3.0;
  int calls = 0;
  double seen = 0;
  shared.register_hook([&](const Tensor& gradient) {
    ++calls;
    seen = gradient.to_vector<double>()[0];
    return Tensor();
  });
  Tensor longer = square(square(shared));  // 4 s^3 = 864
  (longer + shared).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, 865);
  EXPECT_EQ(gradient_of(x), 2595);
}

TEST(Engine, RunsAndDestroysAChainOfAHundredThousandOpsOnASmallStack) {
  int64_t nodes_before = autograd::live_nodes();
  on_small_stack([] {
    Tensor x = leaf({1});
    {
      Tensor y = x;
      for (int i = 0; i < 100'000; ++i) y = y * 1.0;
      y.backward();
    }
    EXPECT_EQ(gradient_of(x), 1);
    Tensor unused = x;
    for (int i = 0; i < 100'000; ++i)
      unused = square(unused);  // each node keeps its input, and that its node
  });
  EXPECT_EQ(autograd::live_nodes(), nodes_before);
}

TEST(Engine, RunsADiamondOfManyPathsInLinearTime) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;  // 2^60 paths
  y.backward();
  EXPECT_EQ(gradient_of(x), 0x1p60);
}

TEST(Engine, TakesOutputGradients) {
  Tensor x = leaf({1, 2, 3});
  square(x).backward(Tensor::from<double>({1, 10, 100}, {3}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 40, 600}));
}

TEST(Engine, TakesSeveralOutputsAtOnceAndTheSameOneTwice) {
  Tensor x = leaf({2});
  Tensor a = square(x), b = x * 5.0;
  autograd::backward({a, b, b});
  EXPECT_EQ(gradient_of(x), 14);
}

TEST(Engine, RunsBackwardFromALeaf) {
  Tensor x = leaf({2});
  x.backward();
  EXPECT_EQ(gradient_of(x), 1);
}

TEST(Engine, DoesNotShareMemoryBetweenGradientsAndTheCallersTensors) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4}), dy = Tensor::from<double>({1, 1}, {2});
  (x + y).backward(dy);
  NoGrad guard;
  x.grad().fill_(7);
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(dy.to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Engine, RefusesASecondPassUnlessTheGraphIsRetained) {
  Tensor x = leaf({3});
  Tensor y = square(x);
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_EQ(gradient_of(x), 12);
  expect_error([&] { y.backward(); }, {"square", "second time", "retain_graph"});
}

TEST(Engine, FreesWhatWasSavedAsItGoes) {
  int64_t before = allocator({}).stats().live_blocks;
  Tensor x = leaf({3}), y = square(exp(x));  // exp's output is alive in the graph alone
  y.backward();
  x.set_grad({});
  EXPECT_EQ(allocator({}).stats().live_blocks, before + 2);  // x and y
}

TEST(Engine, RefusesOutputsOutsideAnyGraph) {
  Tensor x = leaf({3});
  expect_error([&] { zeros({1}).backward(); }, {"backward", "not part of a graph"});
  expect_error([&] { square(x).detach().backward(); }, {"backward", "not part of a graph"});
  expect_error([&] { autograd::backward({Tensor()}); }, {"backward", "undefined"});
  expect_error([&] { square(leaf({1, 2})).backward(); }, {"backward", "(2,)"});
  expect_error([&] { square(x).backward(zeros({2}, DType::f64)); }, {"backward", "(2,)", "(1,)"});
  expect_error([&] { square(x).backward(zeros({1})); }, {"backward", "f32", "f64"});
  expect_error([&] { autograd::backward({square(x)}, {Tensor(), Tensor()}); }, {"backward", "2", "1"});
}

TEST(Grad, GivesGradientsWithoutTouchingLeaves) {
  Tensor x = leaf({3}), w = leaf({5});
  Tensor hidden = x * w, y = square(hidden);
  TensorList grads = grad({y}, {w, hidden});
  EXPECT_EQ(grads[0].item(), 2 * 15 * 3);
  EXPECT_EQ(grads[1].item(), 30);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, GivesTheGradientOfAnOutputAskedForAsInput) {
  Tensor x = leaf({3}), y = square(x), z = y * 2.0;
  TensorList grads = grad({z}, {z, y, x});
  EXPECT_EQ(grads[0].item(), 1);
  EXPECT_EQ(grads[1].item(), 2);
  EXPECT_EQ(grads[2].item(), 12);
}

TEST(Grad, CountsOutputsThatLieBelowOtherOutputsInAnyOrder) {
  for (bool deeper_first : {false, true}) {
    Tensor x = leaf({3}), y = square(x), z = y * 10.0;
    TensorList outputs = deeper_first ? TensorList{z, y, x} : TensorList{x, y, z};
    EXPECT_EQ(grad(outputs, {x})[0].item(), 1 + 6 + 60);
  }
}

TEST(Grad, SkipsWhatDoesNotLeadToTheInputs) {
  Tensor x = leaf({3}), other = leaf({2});
  Tensor branch = square(other);
  int calls = 0;
  branch.register_hook([&](const Tensor&) { return ++calls, Tensor(); });
  Tensor y = square(x) * branch;
  EXPECT_EQ(grad({y}, {x}, {}, {.retain_graph = true})[0].item(), 24);
  EXPECT_EQ(calls, 0);
  y.backward();
  EXPECT_EQ(calls, 1);
}

TEST(Grad, RefusesUnusedInputsUnlessAllowed) {
  Tensor x = leaf({3}), unused = leaf({1});
  Tensor y = square(x);
  expect_error(
      [&] {
        grad({y}, {x, unused}, {}, {.retain_graph = true});
      },
      {"grad", "input 1", "allow_unused"});
  TensorList grads = grad({y}, {x, unused}, {}, {.allow_unused = true});
  EXPECT_EQ(grads[0].item(), 6);
  EXPECT_FALSE(grads[1].defined());
  expect_error([&] { grad({y}, {zeros({1})}); }, {"grad", "input 0", "require grad"});
  expect_error([&] { grad({y}, {}); }, {"grad", "no inputs"});
}

TEST(Backward, AccumulatesIntoTheInputsNamedAlone) {
  Tensor x = leaf({3}), w = leaf({5});
  autograd::backward({x * w}, {}, {.inputs = {w}});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(gradient_of(w), 3);
  expect_error([&] { autograd::backward({x * w}, {}, {.inputs = {x * 1.0}}); }, {"backward", "leaves"});
}

TEST(Grad, TakesAGivenGradientWithoutItsGraph) {
  Tensor x = leaf({1, 2}), given = leaf({3, 4});
  TensorList plain = grad({x + zeros({2}, DType::f64)}, {x}, {given});
  EXPECT_FALSE(plain[0].requires_grad());
  TensorList recorded = grad({x + zeros({2}, DType::f64)}, {x}, {given}, {.create_graph = true});
  EXPECT_TRUE(recorded[0].requires_grad());
}

struct Fails : autograd::Function<Fails> {
  static constexpr const char* name = "fails";
  Tensor forward(const Tensor& x) { return x.clone(); }
  TensorList backward(const TensorList&) { fail("fails: on purpose"); }
};

TEST(Engine, IsUsableAfterAnExceptionInBackward) {
  int64_t nodes = autograd::live_nodes();
  {
    Tensor x = leaf({3});
    Tensor y = Fails::apply(x * 2.0);
    expect_error([&] { y.backward(); }, {"on purpose"});
    EXPECT_FALSE(autograd::in_backward());
    EXPECT_TRUE(autograd::grad_mode_enabled());
    EXPECT_FALSE(x.grad().defined());
    square(x).backward();
    EXPECT_EQ(gradient_of(x), 6);
  }
  EXPECT_EQ(autograd::live_nodes(), nodes);
}

// Its backward runs a graph of its own.
struct Nested : autograd::Function<Nested> {
  static constexpr const char* name = "nested";
  Tensor forward(const Tensor& x) {
    save(x);
    return x * x * x;
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_TRUE(autograd::in_backward());
    Tensor x = saved(0).detach().set_requires_grad();
    EnableGrad guard;
    (x * x * x).backward(dy[0]);
    return {x.grad()};
  }
};

TEST(Engine, RunsBackwardInsideBackward) {
  Tensor x = leaf({2});
  Nested::apply(Nested::apply(x)).backward();  // x^9
  EXPECT_EQ(gradient_of(x), 9 * 256);
  EXPECT_FALSE(autograd::in_backward());
}

TEST(Engine, RunsDisjointGraphsOnTwoThreads) {
  auto work = [] {
    for (int round = 0; round < 50; ++round) {
      Tensor x = leaf({2}), y = x;
      for (int i = 0; i < 20; ++i) y = y * 1.5;
      y.backward();
      EXPECT_NEAR(gradient_of(x), std::pow(1.5, 20), 1e-9);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Engine, AddsFromTwoThreadsThatShareALeaf) {
  Tensor x = leaf({1});
  auto work = [&] {
    for (int round = 0; round < 200; ++round) (x * 3.0).backward();
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(gradient_of(x), 1200);  // small integers: exact in any order
}

TEST(Engine, GivesTheSameBitsAgain) {
  auto run = [] {
    Generator generator(3);
    Tensor w = randn({7, 5}, DType::f32, {}, &generator).set_requires_grad();
    Tensor x = randn({3, 5}, DType::f32, {}, &generator);
    Tensor h = tanh(matmul(x, transpose(w, 0, 1)));
    (h * h + sigmoid(h) + h).sum().backward();
    return w.grad();
  };
  EXPECT_TRUE(same_bits(run(), run()));
}

TEST(Engine, AccountsGradientsToTheirCategory) {
  size_t before = allocator({}).stats().by_category[size_t(MemoryCategory::gradients)];
  Tensor x = zeros({100}).set_requires_grad();
  square(x).sum().backward();
  EXPECT_EQ(allocator({}).stats().by_category[size_t(MemoryCategory::gradients)], before + 400);
}

TEST(Engine, AccountsTheGradientOfAParameterToGradientsFromItsFirstByte) {
  Tensor table = zeros({64, 256}).set_requires_grad(), filters = zeros({64, 4, 8, 8}).set_requires_grad();
  Tensor narrow = zeros({256, 64}).set_requires_grad();
  Tensor x = zeros({1, 256}).set_requires_grad(), image = zeros({1, 4, 8, 8}).set_requires_grad();
  Tensor indices = Tensor::from<int64_t>({1, 2}, {2});
  std::pair<const char*, std::function<Tensor()>> forwards[] = {
      {"linear", [&] { return linear(x, table); }},
      {"mlp", [&] { return mlp(x, table, {}, narrow, {}, Activation::gelu); }},
      {"embedding", [&] { return embedding(table, indices); }},
      {"conv2d", [&] { return conv2d(image, filters); }}};
  Allocator& memory = allocator({});
  for (const auto& [op, forward] : forwards) {
    Tensor loss = forward().sum();
    memory.reset_peaks();
    MemoryStats before = memory.stats();
    loss.backward();
    auto risen = [&](MemoryCategory category) {
      return memory.stats().peak_by_category[size_t(category)] - before.by_category[size_t(category)];
    };
    EXPECT_GE(risen(MemoryCategory::gradients), 65536u) << op;  // each parameter has as many bytes
    EXPECT_LT(risen(MemoryCategory::activations), 65536u) << op;
    for (const Tensor& leaf : {table, filters, narrow, x, image}) leaf.set_grad({});
  }
}

TEST(Engine, NamesTheFunctionThatWasCalled) {
  Tensor x = leaf({1, 2}), y = square(x);
  using Options = autograd::GradOptions;
  expect_error([&] { grad({y}, {x}); }, {"grad: output 0 has shape (2,)"});
  expect_error([&] { grad({y}, {x}, {ones({2})}); }, {"grad: gradient 0 is f32(2,)", "f64(2,)"});
  expect_error([&] { grad({y}, {x}, {ones({1}, DType::f64)}); }, {"grad: gradient 0 is f64(1,)"});
  expect_error([&] { grad({y}, {}); }, {"grad: no inputs given"});
  expect_error([&] { grad({y}, {Tensor()}); }, {"grad: input 0 is undefined"});
  expect_error([&] { grad({Tensor()}, {x}); }, {"grad: output 0 is undefined"});
  expect_error([&] { grad({y.detach()}, {x}, {}, Options{}); }, {"grad: output 0", "not part of a graph"});
  expect_error([&] { y.backward(); }, {"backward: output 0 has shape (2,)"});
  expect_error([&] { y.backward(ones({2})); }, {"backward: gradient 0"});
  expect_error([&] { autograd::backward({y.sum()}, {}, {.inputs = {Tensor()}}); },
               {"backward", "inputs is undefined"});
}

}  // namespace
}  // namespace reprise
