// Selective recompute: what is kept, what runs again, and that no bit changes.
#include "reprise/autograd/recompute/policy.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/tests/autograd/recompute/counted_ops.h"
#include "reprise/tests/autograd/recompute/offload/offload_support.h"

namespace reprise {
namespace {

using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::runs;
using testing::same_bits;
using testing::Square;
using testing::Times;

size_t held_bytes() { return allocator(testing::test_device()).stats().allocated; }

Policy save_everything() {
  return Policy([](const PolicyOp&) { return Decision::save; });
}

TEST(Policy, PlaysOnlyWhatItDoesNotSave) {
  NoLeaks guard;
  Tensor x = leaf({5}), w = leaf({5}, 2);
  auto chain = [&](const Tensor& in) {
    return Times<'d'>::apply(Times<'c'>::apply(Times<'b'>::apply(Times<'a'>::apply(in, w), w), w), w);
  };
  struct Case {
    Policy policy;
    std::string again;  // what runs a second time
  };
  // A slot of b, c and d holds what a, b and c gave; what d gave nothing reads.
  const Case cases[] = {{{}, "abc"},   {{"a"}, "bc"},  {{"b"}, "ac"},
                        {{"c"}, "ab"}, {{"d"}, "abc"}, {save_everything(), ""}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.again);
    runs().clear();
    Tensor y = checkpoint(chain, x, {.policy = c.policy});
    sum(y).backward();
    for (char op : std::string("abcd"))
      EXPECT_EQ(runs()[std::string(1, op)], c.again.find(op) != std::string::npos ? 2 : 1) << op;
  }
}

TEST(Policy, RunsAnOperationWithoutReadersForWhatItSavesAlone) {
  for (const Policy& policy : {Policy(), Policy{"affine"}}) {
    runs().clear();
    Tensor x = leaf({5}), want = leaf({5});
    auto fn = [](const Tensor& in) { return Square::apply(in) + 1.0; };
    sum(fn(want)).backward();
    sum(checkpoint(fn, x, {.policy = policy})).backward();
    EXPECT_EQ(runs()["for its results"], 2);
    EXPECT_EQ(runs()["for what it saves"], 1);
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

TEST(Policy, KeepsNothingThatNobodyReads) {
  constexpr size_t bytes = 1000 * sizeof(float);
  Tensor x = leaf({1000});
  auto fn = [](const Tensor& in) {
    Tensor a = exp(in);    // saves `in`
    Tensor b = a + 1.0;    // saves nothing
    Tensor c = square(b);  // saves b
    return c + 2.0;
  };
  struct Case {
    Policy policy;
    size_t kept;  // beside what fn returns
    const char* what;
  };
  const Case cases[] = {{save_everything(), bytes, "b"},
                        {{"exp", "square"}, bytes, "a, to make b from"},
                        {{"square"}, 0, "nothing reads c"},
                        {{}, 0, "nothing"}};
  size_t before = held_bytes();
  Tensor y = fn(x);
  EXPECT_EQ(held_bytes() - before, 2 * bytes);
  for (const Case& c : cases) {
    y = {};
    y = checkpoint(fn, x, {.policy = c.policy});
    EXPECT_EQ(held_bytes() - before, bytes + c.kept) << c.what;
  }
}

TEST(Policy, LetsGoOfWhatItKeptAsBackwardReadsIt) {
  NoLeaks guard;
  constexpr size_t bytes = 1000 * sizeof(float);
  Tensor x = leaf({1000});
  size_t before = held_bytes();
  size_t held_at_second = 0;
  Tensor loss = sum(checkpoint(
      [&](const Tensor& in) {
        Tensor a = exp(in);
        a.register_hook([&](const Tensor&) {  // its gradient is there: b was read
          if (!recompute::is_replaying()) held_at_second = held_bytes();
          return Tensor();
        });
        return exp(exp(a));
      },
      x, {.policy = {"exp"}}));
  EXPECT_EQ(held_bytes() - before, 2 * bytes + sizeof(float)) << "a, b and the loss";
  loss.backward();
  EXPECT_EQ(held_at_second - before, bytes + sizeof(float)) << "the gradient of a; b and a are gone";
}

TEST(Policy, SeesNamesShapesAndWhetherItIsPartOfAReplay) {
  Tensor x = leaf({3, 4}), w = leaf({5, 4}, 2);
  std::vector<std::string> asked;
  Policy policy([&](const PolicyOp& op) {
    std::ostringstream text;
    text << op.name << op.inputs.at(0) << op.inputs.at(1) << op.results.at(0)
         << (op.replaying ? " again" : "");
    asked.push_back(text.str());
    return Decision::save;
  });
  auto inner = [&](const Tensor& in) {
    return checkpoint([&](const Tensor& h) { return linear(h, w); }, in, {.policy = policy});
  };
  sum(checkpoint([&](const Tensor& in) { return square(inner(in)); }, x)).backward();
  EXPECT_EQ(asked, (std::vector<std::string>{"linear(3, 4)(5, 4)(3, 5)", "linear(3, 4)(5, 4)(3, 5) again"}));
}

TEST(Policy, KeepsNothingInsideOfARegionThatIsPlayedAgain) {
  NoLeaks guard;
  Tensor x = leaf({1000});
  auto inner = [](const Tensor& in) {
    return checkpoint([](const Tensor& h) { return sin(exp(sin(h))); }, in, {.policy = save_everything()});
  };
  auto outer = [&](const Tensor& in) { return inner(inner(in)); };
  Tensor want = leaf({1000});
  sum(outer(want)).backward();
  size_t before = held_bytes();
  Tensor loss = sum(checkpoint(outer, x));
  EXPECT_EQ(held_bytes() - before, sizeof(float)) << "the loss alone";
  loss.backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
}

TEST(Policy, LeavesOutWhatIsDetachedToo) {
  Tensor x = leaf({5}), w = leaf({5}, 2);
  runs().clear();
  auto fn = [&](const Tensor& in) {
    Tensor a = Times<'a'>::apply(in, w);
    return exp(sin(in)) + (a * 3.0).detach();
  };
  sum(checkpoint(fn, x, {.policy = {"exp"}})).backward();
  EXPECT_EQ(runs()["a"], 1);
}

TEST(Policy, HoldsNothingOfARegionThatGoesBackwardInItsFirstRun) {
  Tensor x = leaf({1000});
  size_t before = 0, held = 0;
  auto fn = [&](const Tensor& in) {
    if (!recompute::is_replaying()) before = held_bytes();
    sin(exp(in.detach()));  // sin runs again, so what exp gives is held for it
    Tensor at = numbers({1}).set_requires_grad();
    square(at).backward();
    at = {};
    held = held_bytes();
    return square(in);
  };
  checkpoint(fn, x, {.policy = {"exp"}});
  EXPECT_EQ(held, before);
}

TEST(Policy, HoldsNothingOfARegionAroundAfterAPassThatRetainsTheGraph) {
  Tensor x = leaf({1000});
  auto inner = [](const Tensor& in) {
    return checkpoint([](const Tensor& h) { return sin(exp(sin(h))); }, in, {.policy = save_everything()});
  };
  Tensor loss = sum(checkpoint([&](const Tensor& in) { return inner(inner(in)); }, x));
  x.set_grad(zeros({1000}, DType::f32, testing::test_device()));
  size_t before = held_bytes();
  for (int pass = 0; pass < 2; ++pass) {
    loss.backward({}, true);
    EXPECT_EQ(held_bytes(), before);
  }
}

TEST(Policy, GivesLeftOutDrawsTheirPlaceInTheOrder) {
  Tensor x = leaf({50});
  auto fn = [](const Tensor& in) {
    Tensor a = dropout(in, 0.5);  // left out: kept
    Tensor b = square(exp(a));
    return square(dropout(sin(b), 0.5));  // drawn again
  };
  for (int saved_first : {0, 1}) {
    manual_seed(3);
    Tensor want = leaf({50});
    sum(fn(want)).backward();
    manual_seed(3);
    int dropouts = 0;
    Policy policy([&](const PolicyOp& op) {
      if (op.name != "dropout") return Decision::recompute;
      return dropouts++ == saved_first ? Decision::save : Decision::recompute;
    });
    sum(checkpoint(fn, x, {.policy = policy})).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad())) << saved_first;
    x.set_grad({});
  }
}

TEST(Policy, WorksWithViewsOfWhatIsKept) {
  Tensor x = leaf({4, 6}), w = leaf({9, 6}, 2);
  auto fn = [&](const Tensor& in) {
    TensorList parts = split(linear(sin(in), w), 3, 1);
    return square(parts[0]) * parts[1].transpose(0, 1).reshape({4, 3}) + exp(parts[2]);
  };
  Tensor want = leaf({4, 6});
  sum(fn(want)).backward();
  Tensor dw = w.grad();
  for (const Policy& policy : {Policy{"linear"}, Policy{"linear", "mul"}, Policy{"slice", "reshape", "exp"},
                               Policy{"sin"}, save_everything()}) {
    w.set_grad({}), x.set_grad({});
    sum(checkpoint(fn, x, {.policy = policy})).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
    EXPECT_TRUE(same_bits(w.grad(), dw));
  }
}

TEST(Policy, ServesEachBackwardOfAKeptGraphAndGradientsOfGradients) {
  auto fn = [](const Tensor& in) { return exp(sin(square(in))); };
  for (const Policy& policy : {Policy{"sin"}, Policy{"exp", "square"}, save_everything()}) {
    NoLeaks guard;
    Tensor want = leaf({7}), x = leaf({7});
    Tensor want_y = sum(fn(want)), y = sum(checkpoint(fn, x, {.policy = policy}));
    for (int pass = 0; pass < 2; ++pass) {
      want_y.backward({}, true);
      y.backward({}, true);
      EXPECT_TRUE(same_bits(x.grad(), want.grad()));
    }
    TensorList dx = autograd::grad({y}, {x}, {}, {.create_graph = true});
    TensorList want_dx = autograd::grad({want_y}, {want}, {}, {.create_graph = true});
    EXPECT_TRUE(same_bits(autograd::grad({sum(square(dx[0]))}, {x})[0],
                          autograd::grad({sum(square(want_dx[0]))}, {want})[0]));
  }
}

TEST(Policy, RunsEverythingWhereTheBodyReadsAValueItself) {
  Tensor x = leaf({6});
  auto fn = [](const Tensor& in) {
    Tensor a = exp(in);
    return a.to_vector<float>()[0] > 0 ? square(sin(a)) : a;
  };
  Tensor want = leaf({6});
  sum(fn(want)).backward();
  sum(checkpoint(fn, x, {.policy = {"sin"}})).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
}

TEST(Policy, RunsEverythingAfterABackwardInsideTheBody) {
  Tensor x = leaf({6});
  auto fn = [](const Tensor& in) {
    Tensor a = exp(in), b = sin(a);
    Tensor slope = autograd::grad({sum(b)}, {a}, {}, {.retain_graph = true})[0];
    return square(b) * slope;
  };
  Tensor want = leaf({6});
  sum(fn(want)).backward();
  sum(checkpoint(fn, x, {.policy = {"exp"}})).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
}

TEST(Policy, RunsWhatWasChangedInPlaceInTheBody) {
  Tensor x = leaf({6}), scale = numbers({6}, 4);
  auto fn = [&](const Tensor& in) {
    Tensor weights = scale * 2.0;  // no gradient: may be changed in place
    weights.add_(scale);
    return square(exp(in) * weights);
  };
  Tensor want = leaf({6});
  sum(fn(want)).backward();
  for (const Policy& policy : {Policy{"affine"}, Policy{"exp"}, save_everything()}) {
    x.set_grad({});
    sum(checkpoint(fn, x, {.policy = policy})).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

TEST(Policy, RejectsAKeptValueThatWasChangedInPlace) {
  Tensor x = leaf({6}), inner;
  Tensor y = checkpoint(
      [&](const Tensor& in) {
        Tensor a = exp(in);
        inner = a.detach();
        return square(a);
      },
      x, {.policy = {"exp"}});
  inner.mul_(2);
  testing::expect_error([&] { sum(y).backward(); },
                        {"exp: a tensor of shape (6,) that backward needs was changed in place"});
}

TEST(Policy, RejectsABodyThatDoesSomethingElse) {
  Tensor x = leaf({6});
  for (Determinism determinism : {Determinism::metadata, Determinism::values}) {
    bool first = true;
    auto fn = [&](const Tensor& in) {
      Tensor a = first ? exp(in) : sin(in);
      first = false;
      return square(tanh(a));
    };
    Tensor y = checkpoint(fn, x, {.determinism = determinism, .policy = {"exp"}});
    testing::expect_error([&] { sum(y).backward(); }, {"sin"});
  }
}

// Operations beside the graph, in one of the runs only: statistics of a user's own, say.
TEST(Policy, AllowsOperationsBesideTheGraphInOneRunOnly) {
  Tensor w = leaf({4, 4}, 2);
  for (bool in_first : {true, false})
    for (const Policy& policy : {Policy(), Policy{"linear"}, Policy{"exp"}, save_everything()})
      for (bool drop_one : {false, true}) {
        auto fn = [&](const Tensor& in) {
          if (recompute::is_replaying() != in_first) {
            NoGrad guard;
            linear(in, w), linear(in, w), exp(in);
          }
          Tensor a = linear(in, w);
          return TensorList{linear(exp(linear(a, w)), w), sin(a)};
        };
        Tensor want = leaf({4, 4}), x = leaf({4, 4});
        TensorList y = fn(want);
        (drop_one ? sum(y[0]) : sum(y[0] + y[1])).backward();
        y = checkpoint(fn, x, {.policy = policy});
        if (drop_one) y[1] = {};
        (drop_one ? sum(y[0]) : sum(y[0] + y[1])).backward();
        EXPECT_TRUE(same_bits(x.grad(), want.grad())) << in_first << drop_one;
      }
}

TEST(Policy, ShowsLeftOutOperationsInTracesToo) {
  Tensor x = leaf({6});
  bool first = true;
  auto fn = [&](const Tensor& in) {
    Tensor a = exp(in);
    Tensor b = first ? sin(a) : cos(a);
    first = false;
    return square(tanh(b));
  };
  Tensor y = checkpoint(fn, x, {.policy = {"exp"}, .debug = true});
  testing::expect_error([&] { sum(y).backward(); }, {"exp f32(6,)      exp f32(6,)"});
}

TEST(Policy, OffloadsWhatItSaysIntoTheStore) {
  testing::Chain chain(5);
  TensorList want = chain.plain();
  chain.plain();  // the gradients that `want` holds are no longer those of the chain
  Policy policy(
      [](const PolicyOp& op) { return op.name == "linear" ? Decision::offload : Decision::recompute; });
  NoLeaks guard;
  auto store = testing::all_sizes(1);
  auto selective = [&](const Tensor& w, const Tensor& h) {
    return checkpoint([w](const Tensor& in) { return testing::Chain::layer(in, w); }, h,
                      {.policy = policy, .offload = store});
  };
  EXPECT_TRUE(testing::same_bits(chain.train(selective), want));
  // Four regions of five leave, three of them with an input that is no leaf, all with what linear gave.
  EXPECT_EQ(store->stats().written_bytes, 7 * testing::kBytes);
  EXPECT_EQ(store->stats().offloaded_bytes, 0u);
}

TEST(Policy, CountsWhatItKeeps) {
  Tensor x = leaf({1000});
  recompute::Accounting accounting;
  auto fn = [](const Tensor& in) { return exp(sin(exp(in))); };  // each saves what it is given
  sum(checkpoint(fn, x, {.policy = {"sin"}})).backward();
  EXPECT_EQ(accounting.total().bytes_saved, 2 * 1000 * sizeof(float));
  EXPECT_EQ(accounting.total().bytes_kept, 1000 * sizeof(float));
  EXPECT_EQ(accounting.total().bytes_recomputed, 1000 * sizeof(float));
}

TEST(Policy, NeedsAStoreToOffloadTo) {
  Tensor x = leaf({6});
  Policy policy([](const PolicyOp&) { return Decision::offload; });
  testing::expect_error(
      [&] { checkpoint([](const Tensor& in) { return square(exp(in)); }, x, {.policy = policy}); },
      {"the policy wants what exp gives offloaded, and there is no store for it"});
}

TEST(Policy, NeedsTheNonReentrantMode) {
  Tensor x = leaf({6});
  auto fn = [](const Tensor& in) { return exp(in); };
  testing::expect_error([&] { checkpoint(fn, x, {.mode = CheckpointMode::reentrant, .policy = {"exp"}}); },
                        {"checkpoint: policy needs mode non_reentrant"});
}

TEST(Checkpoint, SkipsWhatOnlyADeadBranchNeeds) {
  runs().clear();
  Tensor x = leaf({5}), w = leaf({5}, 2);
  TensorList y = checkpoint(
      [&](const Tensor& in) {
        Tensor side = Times<'b'>::apply(Times<'a'>::apply(in, w), w);
        return TensorList{side, Times<'d'>::apply(Times<'c'>::apply(in, w), w)};
      },
      x);
  y[0] = {};
  sum(y[1]).backward();
  EXPECT_EQ(runs()["a"], 1);
  EXPECT_EQ(runs()["b"], 1);
  EXPECT_EQ(runs()["c"], 2);
}

// Sees the names of all operations.
// What a policy would be asked about the operations that run meanwhile.
struct Asked : autograd::OpObserver {
  std::vector<PolicyOp> ops;
  std::map<std::string, autograd::OpCost> costs;

  void op_begins(const autograd::OpCall& call) override { costs[call.name] = call.cost; }
  void op_ran(const char* name, const TensorList& inputs, const TensorList& results) override {
    ops.push_back({.name = name, .inputs = shapes(inputs), .results = shapes(results), .cost = costs[name]});
  }
  static std::vector<Shape> shapes(const TensorList& tensors) {
    std::vector<Shape> shapes;
    for (const Tensor& x : tensors) shapes.push_back(x.defined() ? x.shape() : Shape());
    return shapes;
  }
  int count(const Policy& policy, Decision decision) const {
    return int(
        std::count_if(ops.begin(), ops.end(), [&](const PolicyOp& op) { return policy(op) == decision; }));
  }
  std::set<std::string> decided(const Policy& policy, Decision decision) const {
    std::set<std::string> names;
    for (const PolicyOp& op : ops)
      if (policy(op) == decision) names.emplace(op.name);
    return names;
  }
};

TEST(Policy, PresetsNameOperationsThatExist) {
  Asked asked;
  Tensor x = numbers({2, 3, 6}), w = numbers({6, 6}), g = numbers({6}), image = numbers({1, 2, 4, 4});
  matmul(x, w), linear(x, w), mlp(x, w, {}, w, {}), layer_norm(x, g, g), rms_norm(x, g), dropout(x, 0.5);
  relu(x), gelu(x), gelu_tanh(x), silu(x), sigmoid(x), tanh(x), swiglu(x, x);
  add_layer_norm(x, x, g, g), add_rms_norm(x, x, g), conv2d(image, numbers({2, 2, 3, 3}));
  packed_attention(numbers({2, 3, 18}), 2, {});
  Tensor heads = numbers({1, 2, 3, 8});
  attention(heads, heads, heads, {});
  EXPECT_EQ(asked.decided(save_attention(), Decision::save),
            (std::set<std::string>{"attention", "packed_attention"}));
  EXPECT_EQ(asked.decided(save_matmuls(), Decision::save),
            (std::set<std::string>{"attention", "conv2d", "linear", "matmul", "mlp", "packed_attention"}));
  EXPECT_EQ(asked.decided(recompute_cheap(), Decision::recompute),
            (std::set<std::string>{"add_layer_norm", "add_rms_norm", "attention", "dropout", "gelu",
                                   "gelu_tanh", "layer_norm", "packed_attention", "relu", "rms_norm",
                                   "sigmoid", "silu", "swiglu", "tanh"}));
}

TEST(Policy, FindsAProjectionCheapThatAddsAResidualFromNoMoreChannels) {
  auto is_cheap = [](const std::function<void()>& op) {
    Asked asked;
    op();
    return asked.decided(recompute_cheap(), Decision::recompute).size() == 1;
  };
  Tensor x = numbers({2, 3, 6}), wide = numbers({2, 3, 24});
  EXPECT_TRUE(is_cheap([&] { linear(x, numbers({6, 6}), {}, {.residual = x}); }));
  EXPECT_FALSE(is_cheap([&] { linear(x, numbers({6, 6}), {}); }));
  EXPECT_FALSE(is_cheap([&] { linear(wide, numbers({6, 24}), {}, {.residual = x}); }));
}

TEST(Policy, FindsAttentionCheapOverAsManyPositionsAsTheWidth) {
  auto is_cheap = [](const Tensor& q, const Tensor& k) {
    Asked asked;
    attention(q, k, k, {});
    return asked.decided(recompute_cheap(), Decision::recompute).size() == 1;
  };
  Tensor q = numbers({1, 2, 3, 8});  // width 16
  EXPECT_TRUE(is_cheap(q, numbers({1, 1, 16, 8})));
  EXPECT_FALSE(is_cheap(q, numbers({1, 1, 17, 8})));
  Asked asked;
  packed_attention(numbers({2, 6, 18}), 2, {}), packed_attention(numbers({2, 7, 18}), 2, {});
  EXPECT_EQ(asked.count(recompute_cheap(), Decision::recompute), 1);
}

// A query of a window sees 2 w - 1 keys, before and behind it; where attention is causal, w.
TEST(Policy, FindsAttentionWithinAWindowCheapByTheKeysThatAQuerySees) {
  auto is_cheap = [](const MaskedAttentionOptions& options) {
    Asked asked;
    masked_attention(numbers({1, 2, 40, 8}), numbers({1, 1, 40, 8}), numbers({1, 1, 40, 8}), {}, options);
    return asked.decided(recompute_cheap(), Decision::recompute).size() == 1;
  };
  EXPECT_FALSE(is_cheap({}));  // 40 keys, and a width of 16
  EXPECT_TRUE(is_cheap({.causal = true, .window = 16}));
  EXPECT_FALSE(is_cheap({.causal = true, .window = 17}));
  EXPECT_TRUE(is_cheap({.window = 8}));
  EXPECT_FALSE(is_cheap({.window = 9}));
}

}  // namespace
}  // namespace reprise
