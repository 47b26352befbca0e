// Checkpoints under autocast: the bits of a run without them, wherever the scope stands and backward is called. It is
// where PyTorch's checkpoints meet a cast cache and fail (its issues 141896, 193338, 71124).
#include <optional>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using amp::Autocast;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

enum class Scope { around, inside, disabled_inside, none };
enum class Backward { outside, in_its_scope, in_another };

// A block with a norm, a weight used twice, dropout and a residual stream in f32.
struct Block {
  Tensor gamma = leaf({8}, 2), w = leaf({8, 8}, 3), v = leaf({8, 8}, 4), bias = leaf({8}, 5);

  Tensor operator()(const Tensor& x) const {
    Generator* none = nullptr;
    const Tensor hidden = gelu(linear(rms_norm(x, gamma), w, bias));
    return linear(dropout(hidden, 0.25, none), w, bias, {.residual = x}) + mlp(hidden, v, {}, w, bias);
  }
};

struct Case {
  DType dtype = DType::bf16;
  Scope scope = Scope::around;
  Backward backward = Backward::outside;
  amp::Shadows shadows = amp::Shadows::step;
};

// Losses and gradients of three updates; `call` runs the block, in a checkpoint or not.
using Call = std::function<Tensor(const Block&, const Tensor&, const Case&)>;

Tensor in_its_scope(const Block& block, const Tensor& x, const Case& c) {
  std::optional<Autocast> scope;
  if (c.scope == Scope::inside) scope.emplace(test_device(), c.dtype);
  if (c.scope != Scope::disabled_inside) return block(x);
  const Tensor half = block(x);
  Autocast off(test_device(), c.dtype, {.enabled = false});
  return block(half.to(DType::f32));
}

TensorList run(const Case& c, const Call& call) {
  Block block;
  manual_seed(7);
  TensorList seen;
  for (int update = 0; update < 3; ++update) {
    Tensor x = leaf({4, 8}, 1), loss;
    const bool around = c.scope == Scope::around || c.scope == Scope::disabled_inside;
    {
      std::optional<Autocast> scope;
      if (around) scope.emplace(test_device(), c.dtype, amp::AutocastOptions{.weights = c.shadows});
      loss = sum(square(call(block, x, c).to(DType::f32)));
      if (c.backward == Backward::in_its_scope) loss.backward();
    }
    if (c.backward == Backward::outside) loss.backward();
    if (c.backward == Backward::in_another) {
      Autocast other(test_device(), c.dtype == DType::bf16 ? DType::f16 : DType::bf16);
      loss.backward();
    }
    seen.insert(seen.end(), {loss.detach(), x.grad()});
    NoGrad no_graph;
    for (const Tensor& weight : {block.gamma, block.w, block.v, block.bias}) {
      seen.push_back(weight.grad().clone());
      weight.add_(weight.grad(), -0.01);
      weight.set_grad({});
    }
  }
  return seen;
}

// Every operation's results kept but those of products, and the other way round.
Decision keep_products(const PolicyOp& op) {
  const bool product = std::string_view(op.name) == "linear" || std::string_view(op.name) == "mlp";
  return product ? Decision::save : Decision::recompute;
}

TEST(AutocastRecompute, KeepsEveryBit) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (Scope scope : {Scope::around, Scope::inside, Scope::disabled_inside, Scope::none})
      for (Backward backward : {Backward::outside, Backward::in_its_scope, Backward::in_another})
        for (amp::Shadows shadows : {amp::Shadows::step, amp::Shadows::forward, amp::Shadows::none}) {
          NoLeaks guard;
          const Case c{dtype, scope, backward, shadows};
          const TensorList want = run(c, in_its_scope);
          for (CheckpointMode mode : kModes) {
            auto whole = [&](const Block& block, const Tensor& x, const Case& of) {
              return checkpoint([&block, of](const Tensor& in) { return in_its_scope(block, in, of); }, x,
                                {.mode = mode});
            };
            EXPECT_TRUE(same_bits(run(c, whole), want)) << testing::name_of(mode);
          }
          auto selective = [&](const Block& block, const Tensor& x, const Case& of) {
            return checkpoint([&block, of](const Tensor& in) { return in_its_scope(block, in, of); }, x,
                              {.policy = keep_products});
          };
          EXPECT_TRUE(same_bits(run(c, selective), want)) << "selective";
        }
}

TEST(AutocastRecompute, NestedRegionsKeepEveryBit) {
  for (CheckpointMode outer : kModes)
    for (CheckpointMode inner : kModes) {
      const Case c;
      auto nested = [&](const Block& block, const Tensor& x, const Case&) {
        auto part = [&block](const Tensor& in) { return block(in); };
        return checkpoint(
            [part, inner](const Tensor& in) { return checkpoint(part, part(in), {.mode = inner}); }, x,
            {.mode = outer});
      };
      auto plain = [&](const Block& block, const Tensor& x, const Case&) { return block(block(x)); };
      EXPECT_TRUE(same_bits(run(c, nested), run(c, plain)))
          << std::string(testing::name_of(outer)) + " in it";
    }
}

// A replay has leaves in the places of results that its region was given: they are no weights.
TEST(AutocastRecompute, AnInputThatIsAResultIsCastInBothRuns) {
  const Tensor w = leaf({8, 8}, 2);
  for (CheckpointMode mode : kModes) {
    Tensor want;
    for (bool recompute : {false, true}) {
      Tensor x = leaf({4, 8}, 1), y;
      auto product = [&](const Tensor& in) { return linear(in, w); };
      {
        Autocast scope(test_device(), DType::bf16);
        y = recompute ? checkpoint(product, x * 2.0, {.mode = mode}) : product(x * 2.0);
      }
      sum(square(y)).backward();
      const Tensor gradients = concat({x.grad(), w.grad()}, 0);
      w.set_grad({});
      if (!want.defined()) want = gradients;
      EXPECT_TRUE(same_bits(gradients, want)) << testing::name_of(mode);
    }
  }
}

// What a region around was given stays a result where it is handed on.
TEST(AutocastRecompute, AnInputThatIsHandedOnIsCastInAllRuns) {
  const Tensor w = leaf({8, 8}, 2);
  auto gradients = [&](const std::vector<CheckpointMode>& modes) {
    const Tensor x = leaf({4, 8}, 1);
    w.set_grad({});
    std::function<Tensor(const Tensor&)> fn = [&](const Tensor& in) { return linear(in, w); };
    for (CheckpointMode mode : modes)
      fn = [fn, mode](const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); };
    Tensor y;
    {
      Autocast scope(test_device(), DType::bf16);
      y = fn(x * 2.0);
    }
    sum(square(y)).backward();
    return TensorList{y.detach(), x.grad(), w.grad()};
  };
  const TensorList want = gradients({});
  for (CheckpointMode outer : kModes)
    for (CheckpointMode middle : kModes)
      for (CheckpointMode inner : kModes) {
        EXPECT_TRUE(same_bits(gradients({inner, outer}), want)) << "two";
        EXPECT_TRUE(same_bits(gradients({inner, middle, outer}), want)) << "three";
      }
}

TEST(AutocastRecompute, AReplayUnderAnotherDtypeIsFound) {
  // What a region notes is its own: a scope that fn opens by a value which has changed since is fn's fault.
  DType dtype = DType::bf16;
  Block block;
  Tensor y = checkpoint(
      [&](const Tensor& in) {
        Autocast scope(test_device(), dtype);
        return block(in);
      },
      leaf({4, 8}, 1));
  dtype = DType::f16;
  testing::expect_error([&] { sum(y).backward(); }, "checkpoint: fn did something else");
}

}  // namespace
}  // namespace reprise
