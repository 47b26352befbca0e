// functional_call: a module with other tensors for one call, against the same function written without modules.
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/functional/derivatives.h"
#include "reprise/autograd/leaf/lent_memory.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/modules/functional_net.h"

namespace reprise {
namespace {

using testing::bases;
using testing::expect_error;
using testing::Kept;
using testing::leaf;
using testing::named;
using testing::Net;
using testing::NoLeaks;
using testing::numbers;
using testing::plain;
using testing::results_of;
using testing::same_bits;
using testing::test_device;

TensorList gradients(const TensorList& leaves) {
  TensorList all;
  for (const Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

TEST(FunctionalCall, GradientsFlowIntoTheGivenTensorsAlone) {
  for (const bool results : {false, true}) {
    NoLeaks guard;
    Net net;
    int hooks = 0;
    for (const Tensor& own : net.parameters())
      own.register_hook([&](const Tensor&) { return ++hooks, Tensor(); });
    net.out.bias.set_grad(numbers({3}, 5));
    const Kept kept(net.parameters());
    const Tensor x = leaf({5, 4}), twin = leaf({5, 4});
    const TensorList got = bases(), want = bases();
    const Tensor y = functional_call(net, named(results ? results_of(got) : got), x);
    kept.expect_untouched();
    const Tensor expected = plain(results ? results_of(want) : want, twin);
    EXPECT_TRUE(same_bits(y, expected));
    sum(square(y)).backward();
    sum(square(expected)).backward();
    EXPECT_TRUE(same_bits(gradients(got), gradients(want)));
    EXPECT_TRUE(same_bits(x.grad(), twin.grad()));
    EXPECT_EQ(hooks, 0);
    kept.expect_untouched();
    EXPECT_TRUE(same_bits(net(x.detach()), plain(net.parameters(), x.detach())));
  }
}

TEST(FunctionalCall, LeavesWhatIsNotGiven) {
  Net net;
  const Tensor x = numbers({5, 4}), w = leaf({3, 6}, 8);
  const Tensor y = functional_call(net, {{"out.weight", w}}, x);
  EXPECT_TRUE(same_bits(y, plain({net.hidden.weight, net.hidden.bias, w, net.out.bias}, x)));
  sum(y).backward();
  EXPECT_TRUE(w.grad().defined() && net.hidden.weight.grad().defined() && net.out.bias.grad().defined());
  EXPECT_FALSE(net.out.weight.grad().defined());
  EXPECT_TRUE(same_bits(functional_call(net, {}, x), net(x)));
}

TEST(FunctionalCall, TakesAFunctionAndGivesWhatItGives) {
  Net net;
  const Tensor x = numbers({5, 4});
  const TensorList w = bases();
  EXPECT_EQ(functional_call(net, named(w), [&] { return 7; }), 7);
  bool ran = false;
  functional_call(net, named(w), [&] { ran = true; });
  EXPECT_TRUE(ran);
  const Tensor loss = functional_call(net, named(w), [&] { return sum(net(x)); });
  EXPECT_TRUE(same_bits(loss, sum(plain(w, x))));
  const Net& fixed = net;
  EXPECT_TRUE(same_bits(functional_call(fixed, named(w), x), plain(w, x)));
}

TEST(FunctionalCall, GivesTheGivenTensorForAHandleOfTheModules) {
  Net net;
  const TensorList w = bases(), v = results_of(w);
  EXPECT_TRUE(functional_call(net, named(w), [&] { return net.out.bias; }).is_same(w[3]));
  const TensorList both = functional_call(net, named(v), [&] {
    return TensorList{net.out.bias, net.hidden.bias.contiguous()};
  });
  EXPECT_TRUE(both[0].is_same(v[3]) && both[1].is_same(v[1]));
  const Tensor nested = functional_call(net, named(v), [&] {
    return functional_call(net, {{"out.bias", net.out.bias}}, [&] { return net.out.bias; });
  });
  EXPECT_TRUE(same_bits(nested, v[3]));
  sum(nested).backward();
  EXPECT_TRUE(same_bits(w[3].grad(), full_like(w[3], 0.5)));
}

TEST(FunctionalCall, RestoresTheModuleWhereTheCallThrows) {
  Net net;
  const Kept kept(net.parameters());
  const TensorList w = results_of(bases());
  expect_error([&] { functional_call(net, named(w), [&]() -> Tensor { fail("inside"); }); }, {"inside"});
  expect_error([&] { functional_call(net, named(w), numbers({5, 3})); }, {"linear"});
  expect_error(
      [&] {
        functional_call(net, named(w), [&] {
          return functional_call(net, named(bases()), [&]() -> Tensor { fail("deeper"); });
        });
      },
      {"deeper"});
  kept.expect_untouched();
}

TEST(FunctionalCall, ListsAllThatDoesNotFitAndChangesNothing) {
  Net net;
  const Kept kept(net.parameters());
  const TensorList w = bases();
  bool ran = false;
  expect_error(
      [&] {
        functional_call(net,
                        {{"hidden.weight", w[2]},
                         {"hidden.bias", w[1].detach().to(DType::f64)},
                         {"out.weight", Tensor()},
                         {"out.bias", w[3]},
                         {"out.bias", w[3]},
                         {"out.wieght", w[2]}},
                        [&] { ran = true; });
      },
      {"functional_call", "shape of hidden.weight", "dtype of hidden.bias", "out.weight: given no tensor",
       "given twice: out.bias", "unknown: out.wieght"});
  EXPECT_FALSE(ran);
  kept.expect_untouched();
}

struct Tied : nn::Module {
  nn::Linear shared{4, 4, {}, test_device()};
  Tensor again;
  Tied() {
    register_module("first", shared);
    register_module("second", shared);
    again = register_buffer("again", shared.bias);
  }
  Tensor operator()(const Tensor& x) { return shared(shared(x)) + again; }
};

TEST(FunctionalCall, KnowsATiedTensorByEachOfItsNames) {
  Tied net;
  const Tensor x = numbers({5, 4}), w = leaf({4, 4}, 3), other = leaf({4, 4}, 4), b = leaf({4}, 5);
  const Tensor want = linear(linear(x, w, b), w, b) + b;
  EXPECT_TRUE(same_bits(functional_call(net, {{"second.weight", w}, {"again", b}}, x), want));
  EXPECT_TRUE(same_bits(
      functional_call(net, {{"first.weight", w}, {"second.weight", w}, {"first.bias", b}}, x), want));
  expect_error(
      [&] {
        functional_call(net, {{"first.weight", w}, {"second.weight", other}}, x);
      },
      {"first.weight and second.weight are one tensor"});
}

TEST(FunctionalCall, TakesTheModulesOwnTensorsInOtherPlaces) {
  nn::Linear a(4, 4, {}, test_device()), b(4, 4, {}, test_device());
  struct Pair : nn::Layer {
    nn::Linear &first, &second;
    Pair(nn::Linear& a, nn::Linear& b) : first(a), second(b) {
      register_module("a", a);
      register_module("b", b);
    }
    Tensor forward(const Tensor& x) override { return second(tanh(first(x))); }
  } pair(a, b);
  const Tensor x = numbers({5, 4}), a_own = a.weight.detach().clone(), b_own = b.weight.detach().clone();
  const Tensor y = functional_call(pair, {{"a.weight", b.weight}, {"b.weight", a.weight}}, x);
  const Tensor a_twin = a_own.clone().set_requires_grad(), b_twin = b_own.clone().set_requires_grad();
  const Tensor want = linear(tanh(linear(x, b_twin, a.bias)), a_twin, b.bias);
  EXPECT_TRUE(same_bits(y, want));
  sum(square(y)).backward();
  sum(square(want)).backward();
  EXPECT_TRUE(same_bits(a.weight.grad(), a_twin.grad()) && same_bits(b.weight.grad(), b_twin.grad()));
  EXPECT_TRUE(same_bits(a.weight.detach(), a_own) && same_bits(b.weight.detach(), b_own));
}

TEST(FunctionalCall, TakesViewsThatAreNotContiguous) {
  Net net;
  const Tensor x = numbers({5, 4}), got = leaf({4, 6}, 3), want = leaf({4, 6}, 3);
  const TensorList own = net.parameters();
  sum(square(functional_call(net, {{"hidden.weight", got.transpose(0, 1)}}, x))).backward();
  sum(square(plain({want.transpose(0, 1), own[1], own[2], own[3]}, x))).backward();
  EXPECT_TRUE(same_bits(got.grad(), want.grad()));
}

TEST(FunctionalCall, NestsAndTheInnermostHolds) {
  Net net;
  const Kept kept(net.parameters());
  const Tensor x = numbers({5, 4}), w = leaf({6, 4}, 3), v = leaf({3, 6}, 4), u = leaf({6, 4}, 5);
  const TensorList own = net.parameters();
  const TensorList got = functional_call(net, {{"hidden.weight", w}, {"out.weight", v}}, [&] {
    const Tensor inner = functional_call(net, {{"hidden.weight", u * 2.0}}, x);
    const Tensor derived = functional_call(net, {{"hidden.weight", net.hidden.weight * 3.0}}, [&] {
      const Tensor y = net(x);
      grad({sum(y)}, {w}, {}, {.retain_graph = true});  // puts all aside, and back
      EXPECT_TRUE(same_bits(net(x), y));
      return y;
    });
    return TensorList{inner, derived, net(x)};
  });
  const TensorList want{plain({u * 2.0, own[1], v, own[3]}, x), plain({w * 3.0, own[1], v, own[3]}, x),
                        plain({w, own[1], v, own[3]}, x)};
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_TRUE(same_bits(grad({sum(got[0]) + sum(square(got[1])) + sum(got[2])}, {w, v, u}),
                        grad({sum(want[0]) + sum(square(want[1])) + sum(want[2])}, {w, v, u})));
  kept.expect_untouched();
}

// Finn et al. 2017: gradients through a step, and through a step of a step.
TEST(FunctionalCall, DifferentiatesThroughInnerSteps) {
  NoLeaks guard;
  Net net;
  const Tensor x = numbers({5, 4}), target = numbers({5, 3}, 2);
  const TensorList got = bases(), want = bases();
  auto outer = [&](TensorList w, const auto& predict) {
    for (int step = 0; step < 2; ++step) {
      const TensorList slopes = grad({mse_loss(predict(w), target)}, w, {}, {.create_graph = true});
      for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] - slopes[i] * 0.1;
    }
    return mse_loss(predict(w), target);
  };
  const Tensor loss = outer(got, [&](const TensorList& w) { return functional_call(net, named(w), x); });
  const Tensor expected = outer(want, [&](const TensorList& w) { return plain(w, x); });
  EXPECT_TRUE(same_bits(loss, expected));
  EXPECT_TRUE(same_bits(grad({loss}, got), grad({expected}, want)));
  for (const Tensor& own : net.parameters()) EXPECT_FALSE(own.grad().defined());
}

TEST(FunctionalCall, ABackwardPassInsideReadsWhatItsGraphWasRecordedWith) {
  Net net;
  const Tensor x = leaf({5, 4});
  const TensorList own = net.parameters(), w = bases();
  const Tensor before = sum(square(net(x)));  // holds the handles of the module's own
  const TensorList want = grad({sum(square(plain(own, x)))}, {x, own[0], own[2]});
  const TensorList got = functional_call(net, named(w), [&] {
    const Tensor inside = sum(square(net(x)));
    TensorList all = grad({before}, {x});
    const TensorList inner = grad({inside}, {x, net.hidden.weight});  // which is w[0] here
    all.insert(all.end(), inner.begin(), inner.end());
    EXPECT_TRUE(same_bits(net(x), plain(w, x))) << "given again behind the passes";
    return all;
  });
  const TensorList of_given = grad({sum(square(plain(w, x)))}, {x, w[0]});
  EXPECT_TRUE(same_bits(got[0], want[0]));
  EXPECT_TRUE(same_bits(got[1], of_given[0]) && same_bits(got[2], of_given[1]));
}

TEST(FunctionalCall, GraphsKeepWhatWasGivenWhateverTheModuleDoesWithItsHandlesMeanwhile) {
  Net net;
  const Tensor x = leaf({5, 4});
  const TensorList w = bases();
  const Tensor y = functional_call(net, named(w), [&] {
    for (const Tensor& p : net.parameters()) p.set_requires_grad(true);  // as an unfreezing helper does
    return net(x);
  });
  {
    NoGrad quiet;
    for (const Tensor& own : net.parameters()) own.mul_(2.0);
  }
  EXPECT_TRUE(
      same_bits(grad({sum(square(y))}, {x, w[0], w[2]}), grad({sum(square(plain(w, x)))}, {x, w[0], w[2]})));
}

TEST(FunctionalCall, BuffersAreReadAndWrittenWhereTheyWereGiven) {
  nn::BatchNorm1d norm(4, {}, test_device()), twin(4, {}, test_device());
  const Tensor x = numbers({6, 4}), mean = numbers({4}, 2), var = numbers({4}, 3) * numbers({4}, 3);
  const Tensor mean_own = norm.running_mean.detach().clone();
  {
    NoGrad guard;
    twin.running_mean.copy_(mean);
    twin.running_var.copy_(var);
  }
  norm.eval();
  twin.eval();
  EXPECT_TRUE(same_bits(functional_call(norm, {{"running_mean", mean}, {"running_var", var}}, x), twin(x)));
  norm.train();
  twin.train();
  EXPECT_TRUE(same_bits(functional_call(norm, {{"running_mean", mean}, {"running_var", var}}, x), twin(x)));
  EXPECT_TRUE(same_bits(mean, twin.running_mean) && same_bits(var, twin.running_var));
  EXPECT_TRUE(same_bits(norm.running_mean, mean_own));
}

struct Scaling : nn::Layer {
  Tensor scale = register_parameter("scale", Tensor::from<float>({2, 3}, {2}).to(test_device()));
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * scale;
    scale.mul_(2.0);
    scale.add_(y);
    return scale * x;
  }
};

TEST(FunctionalCall, OperationsInPlaceReachTheGivenTensor) {
  Scaling scaling;
  auto twin = [](const Tensor& x, const Tensor& s) { return s * 2.0 + x * s; };
  const Tensor x = numbers({2}), got = leaf({2}, 3), want = leaf({2}, 3), s = got + 1.0, t = want + 1.0;
  const Tensor y = functional_call(scaling, {{"scale", s}}, x), next = twin(x, t);
  EXPECT_TRUE(same_bits(y, next * x));
  EXPECT_TRUE(same_bits(s, next)) << "as a write into its memory would";
  EXPECT_EQ(scaling.scale.to_vector<float>(), (std::vector<float>{2, 3}));
  sum(square(y) + s).backward();
  sum(square(next * x) + next).backward();
  EXPECT_TRUE(same_bits(got.grad(), want.grad()));

  const Tensor quiet = numbers({2}, 4), was = quiet.clone();
  {
    NoGrad guard;
    functional_call(scaling, {{"scale", quiet}}, x);
  }
  EXPECT_TRUE(same_bits(quiet, twin(x, was)));
  expect_error([&] { functional_call(scaling, {{"scale", got}}, x); }, {"mul_", "leaf"});
  expect_error([&] { scaling(x); }, {"mul_", "leaf"});
}

// The other way round: the function changes the tensor by the handle that it gave.
TEST(FunctionalCall, AChangeOfTheGivenHandleStaysAndTheModulesIsOutOfDate) {
  Net net;
  const Tensor x = numbers({5, 4}), base = leaf({3}, 2), b = base * 1.0;
  const TensorList own = net.parameters();
  const Tensor y = functional_call(net, {{"out.bias", b}}, [&] {
    const Tensor before = net(x);
    b.add_(1.0);
    expect_error([&] { net(x); }, {"view", "add_"});
    return before;
  });
  EXPECT_TRUE(same_bits(b, base + 1.0));
  EXPECT_TRUE(same_bits(y, plain({own[0], own[1], own[2], base * 1.0}, x)));
  (sum(y) + sum(b * 2.0)).backward();
  EXPECT_TRUE(same_bits(base.grad(), full_like(base, 7)));
}

TEST(FunctionalCall, RefusesWeightsThatRanksShare) {
  Net net, other;
  const Tensor x = numbers({5, 4}), w = numbers({3, 6});
  for (const bool lends : {false, true}) {
    autograd::LentMemory memory(net.out.weight), of_given(other.out.weight);
    for (autograd::LentMemory* each : {&memory, &of_given}) {
      each->place().copy_(w);
      if (lends) each->lend();
    }
    expect_error(
        [&] {
          functional_call(net, {{"out.weight", w}}, x);
        },
        {"ranks share the memory of out.weight"});
    Net free;
    expect_error([&] { functional_call(free, {{"out.weight", other.out.weight}}, x); }, {"ranks share"});
  }
}

TEST(FunctionalCall, IsAFunctionOfItsWeightsForHessians) {
  Net net;
  const Tensor x = numbers({5, 4}), v = numbers({3, 6}, 7), w = numbers({3, 6}, 8);
  const TensorList own = net.parameters();
  auto loss = [&](const Tensor& y) { return sum(square(tanh(y))); };
  const auto got = hvp(
      [&](const TensorList& in) {
        return TensorList{loss(functional_call(net, {{"out.weight", in[0]}}, x))};
      },
      {w}, {v});
  const auto want = hvp(
      [&](const TensorList& in) {
        return TensorList{loss(plain({own[0], own[1], in[0], own[3]}, x))};
      },
      {w}, {v});
  EXPECT_TRUE(same_bits(got.product[0], want.product[0]));
}

TEST(FunctionalCall, AutocastReadsNo16BitValueOfAnotherTensor) {
  for (const bool results : {false, true})
    for (const bool frozen : {false, true}) {
      Net net;
      if (frozen) net.freeze();
      const Tensor x = numbers({5, 4});
      TensorList got = bases(), want = bases();
      if (frozen)
        for (TensorList* list : {&got, &want})
          for (Tensor& w : *list) w = w.detach();
      auto given = [&](const TensorList& base) { return results ? results_of(base) : base; };
      amp::Autocast scope(test_device(), DType::bf16);
      const Tensor own = net(x);  // makes the module's
      const Tensor y = functional_call(net, named(given(got)), x),
                   again = functional_call(net, named(given(got)), x);
      const Tensor expected = plain(given(want), x);
      EXPECT_TRUE(same_bits(y, expected) && same_bits(again, expected));
      EXPECT_TRUE(same_bits(net(x), own));
      if (frozen) continue;
      sum(square(y)).backward();
      sum(square(expected)).backward();
      EXPECT_TRUE(same_bits(gradients(got), gradients(want)));
    }
}

TEST(FunctionalCall, AnOptimizerGoesOnAsIfNothingHadBeen) {
  manual_seed(3);
  Net net;
  manual_seed(3);
  Net twin;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.1}), other(twin.parameters(), {.lr = 0.1});
  const Tensor x = numbers({5, 4});
  for (int step = 0; step < 3; ++step) {
    sum(square(net(x))).backward();
    sum(square(twin(x))).backward();
    const TensorList w = bases();
    sum(square(functional_call(net, named(w), x))).backward();
    optimizer.step();
    other.step();
    optimizer.zero_grad();
    other.zero_grad();
  }
  EXPECT_TRUE(same_bits(net.parameters(), twin.parameters()));
}

TEST(FunctionalCall, ThreadsHaveAModelEach) {
  auto run = [](uint64_t seed) {
    Net net;
    TensorList all;
    for (int i = 0; i < 20; ++i) {
      const TensorList w = bases();
      const Tensor x = numbers({5, 4}, seed + uint64_t(i));
      sum(square(functional_call(net, named(results_of(w)), x))).backward();
      for (const Tensor& g : gradients(w)) all.push_back(g);
    }
    return all;
  };
  TensorList first, second;
  std::thread a([&] { first = run(1); }), b([&] { second = run(50); });
  a.join();
  b.join();
  EXPECT_TRUE(same_bits(first, run(1)));
  EXPECT_TRUE(same_bits(second, run(50)));
}

}  // namespace
}  // namespace reprise
