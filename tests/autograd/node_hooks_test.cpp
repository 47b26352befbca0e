// Hooks on the operation that made a tensor: what they see, what they may return, and in which order.
#include "reprise/autograd/function.h"
#include "reprise/autograd/functional/graph.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::numbers;
using testing::same_bits;

Tensor leaf(double value) { return Tensor::from<double>({value}, {1}).set_requires_grad(); }

double number(const Tensor& x) { return x.defined() ? x.item() : -1; }

TEST(NodeHooks, RunAroundTheOperationInTheirOrder) {
  const Tensor a = leaf(2), b = leaf(3), y = a * b;
  std::vector<double> seen;
  register_node_hook(y, [&](const TensorList& in, const TensorList& out) {
    EXPECT_EQ(in.size(), 2u);
    seen.insert(seen.end(), {4, number(in[0]), number(in[1]), number(out[0])});
    return TensorList{in[0] + 1.0, in[1]};
  });
  register_node_hook(y, [&](const TensorList& in, const TensorList&) {
    seen.insert(seen.end(), {5, number(in[0])});
    return TensorList();
  });
  register_node_prehook(y, [&](const TensorList& out) {
    seen.insert(seen.end(), {2, number(out[0])});
    return TensorList{out[0] * 10.0};
  });
  register_node_prehook(y, [&](const TensorList& out) {
    seen.insert(seen.end(), {3, number(out[0])});
    return TensorList();
  });
  y.register_hook([&](const Tensor& dy) { return seen.insert(seen.end(), {1, dy.item()}), dy * 2.0; });
  y.backward();
  EXPECT_EQ(seen, (std::vector<double>{1, 1, 2, 2, 3, 20, 4, 60, 40, 20, 5, 61}));
  EXPECT_EQ(a.grad().item(), 61);
  EXPECT_EQ(b.grad().item(), 40);
}

TEST(NodeHooks, AreRemovedAlsoWhileTheyRunAndWhenTheGraphIsGone) {
  const Tensor a = leaf(2);
  int calls = 0;
  std::function<void()> remove, late;
  {
    const Tensor y = square(a);
    remove = register_node_hook(y, [&](const TensorList&, const TensorList&) {
      ++calls;
      remove();
      return TensorList();
    });
    late = register_node_prehook(y, [&](const TensorList&) { return ++calls, TensorList(); });
    y.backward({}, /*retain_graph=*/true);
    y.backward();
  }
  EXPECT_EQ(calls, 3);
  remove();
  late();
}

TEST(NodeHooks, GradTakesWhatItWasAskedForBeforeThem) {
  const Tensor a = leaf(2), y = square(a);
  register_node_prehook(y, [](const TensorList& out) { return TensorList{out[0] * 10.0}; });
  register_node_hook(y, [](const TensorList& in, const TensorList&) { return TensorList{in[0] + 1.0}; });
  const TensorList got = grad({y * 3.0}, {y, a});
  EXPECT_EQ(got[0].item(), 3);
  EXPECT_EQ(got[1].item(), 121);
}

struct Split : autograd::Function<Split> {
  static constexpr const char* name = "split";
  bool tells_apart = false;
  TensorList forward(const Tensor& x, const Tensor&, bool tells) {
    tells_apart = tells;
    return {x + 1.0, x * 2.0};
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_EQ(dy[1].defined(), !tells_apart);
    return {dy[0], Tensor()};
  }
  bool takes_undefined_gradients() const override { return tells_apart; }
};

// PyTorch's set_materialize_grads.
TEST(NodeHooks, SeeNoGradientAsUndefinedBeforeAnOperationAndAsItTookThemBehind) {
  for (const bool tells_apart : {false, true}) {
    const Tensor a = leaf(2);
    const TensorList y = Split::apply(a, leaf(1).detach(), tells_apart);
    int calls = 0;
    register_node_prehook(y[0], [&](const TensorList& out) {
      EXPECT_TRUE(out[0].defined() && !out[1].defined());
      return ++calls, TensorList();
    });
    register_node_hook(y[1], [&](const TensorList& in, const TensorList& out) {
      EXPECT_TRUE(in[0].defined() && !in[1].defined());
      EXPECT_EQ(out[1].defined(), !tells_apart);
      return ++calls, TensorList();
    });
    y[0].backward();
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(a.grad().item(), 1);
  }
}

TEST(NodeHooks, AreDifferentiatedUnderCreateGraph) {
  const Tensor a = leaf(2), y = square(a);
  register_node_hook(y, [](const TensorList& in, const TensorList&) { return TensorList{in[0] * in[0]}; });
  const Tensor da = grad({y}, {a}, {}, {.create_graph = true})[0];  // (2 a)^2
  EXPECT_EQ(da.item(), 16);
  EXPECT_EQ(grad({da}, {a})[0].item(), 16);  // 8 a
}

TEST(NodeHooks, RefuseWhatDoesNotFit) {
  const Tensor a = leaf(2);
  auto run = [&](auto hook) {
    const Tensor y = square(a);
    register_node_hook(y, hook);
    y.backward();
  };
  using List = const TensorList&;
  expect_error([&] { run([](List in, List) {
                       return TensorList{in[0], in[0]};
                     }); },
               {"square", "2 gradients for 1"});
  expect_error([&] { run([](List, List) { return TensorList{zeros({2}, DType::f64)}; }); },
               {"square", "argument 0"});
  expect_error([&] { run([](List in, List) { return in[0].mul_(2.0), TensorList(); }); },
               {"square", "in place"});
  expect_error([&] { run([](List, List out) { return out[0].mul_(2.0), TensorList(); }); },
               {"square", "in place"});
  const Tensor y = square(a);
  register_node_prehook(y, [](List) { return TensorList{zeros({2}, DType::f64)}; });
  expect_error([&] { y.backward(); }, {"square", "a hook returned"});
  EXPECT_FALSE(a.grad().defined());
  expect_error([&] { register_node_hook(a, [](List, List) { return TensorList(); }); },
               {"register_node_hook", "no recorded operation"});
  expect_error([&] { register_node_prehook(square(a), {}); }, {"register_node_prehook", "empty"});
}

// What is added up in place, in the pass around, is the operation's own where a hook looks.
TEST(NodeHooks, SeeWhatTheOperationGivesAndNotTheSum) {
  const Tensor table = testing::leaf({5, 3});
  const Tensor rows = Tensor::from<int64_t>({1, 3}, {2}).to(table.device());
  const Tensor y = embedding(table, rows);
  Tensor seen;
  register_node_hook(y, [&](const TensorList& in, const TensorList&) {
    seen = in[0].clone();
    return TensorList();
  });
  (sum(y) + sum(table * 4.0)).backward();
  EXPECT_EQ(sum(seen).item(), 6);
  EXPECT_EQ(sum(table.grad()).item(), 66);
}

TEST(NodeHooks, OfARegionAreThoseOfItsNode) {
  for (const CheckpointMode mode : kModes) {
    const Tensor x = testing::leaf({2, 3}, 1), w = testing::leaf({4, 3}, 2), b = numbers({4}, 3);
    const Tensor twin = testing::leaf({2, 3}, 1), v = testing::leaf({4, 3}, 2);
    const Tensor y = checkpoint([&](const Tensor& in) { return linear(in, w, b); }, x, {.mode = mode});
    EXPECT_EQ(grad_fn_name(y), mode == CheckpointMode::reentrant ? "checkpoint" : "linear");
    TensorList seen;
    register_node_hook(y, [&](const TensorList& in, const TensorList&) {
      seen.insert(seen.end(), {in[0].clone(), in[1].clone()});
      return TensorList();
    });
    const Tensor z = linear(twin, v, b);
    (sum(square(y)) + sum(x * 3.0) + sum(w * 5.0)).backward();
    (sum(square(z)) + sum(twin * 3.0) + sum(v * 5.0)).backward();
    EXPECT_TRUE(testing::is_close(x.grad(), twin.grad(), 1e-6));
    EXPECT_TRUE(testing::is_close(w.grad(), v.grad(), 1e-6));
    ASSERT_EQ(seen.size(), 2u) << "the hook ran once";
    EXPECT_TRUE(testing::is_close(seen[0], twin.grad() - 3.0, 1e-5));
    EXPECT_TRUE(testing::is_close(seen[1], v.grad() - 5.0, 1e-5));
    seen.clear();
  }
}

}  // namespace
}  // namespace reprise
