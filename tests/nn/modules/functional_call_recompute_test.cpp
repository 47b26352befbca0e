// functional_call and recompute, in both modes: a region that ran in a call plays with the tensors of that call, whenever it plays.
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/recompute/policy.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/block_stack.h"
#include "reprise/tests/nn/modules/functional_net.h"

namespace reprise {
namespace {

using testing::bases;
using testing::expect_error;
using testing::Kept;
using testing::kModes;
using testing::leaf;
using testing::name_of;
using testing::named;
using testing::Net;
using testing::NoLeaks;
using testing::numbers;
using testing::plain;
using testing::results_of;
using testing::same_bits;
using testing::test_device;

using Call = std::function<Tensor(const Tensor& x)>;

// y = call(x), and the gradients of x and of the bases for sum(y^2), which are added to leaves.
TensorList outcome(const Call& call, const TensorList& base, bool autocast = false) {
  const Tensor x = leaf({5, 4});
  Tensor y;
  {
    amp::Autocast scope(test_device(), DType::bf16, {.enabled = autocast});
    y = call(x);
  }
  sum(square(y)).backward();
  TensorList all{y.detach(), x.grad()};
  for (const Tensor& b : base) all.push_back(b.grad());
  return all;
}

Call region(CheckpointMode mode, const Call& call) {
  return [=](const Tensor& x) { return checkpoint(call, x, {.mode = mode}); };
}

TEST(FunctionalRecompute, RegionsPlayWithWhatTheirCallWasGiven) {
  for (const CheckpointMode mode : kModes)
    for (const bool results : {false, true})
      for (const bool autocast : {false, true}) {
        SCOPED_TRACE(std::string(name_of(mode)) + (results ? ", results" : ", leaves") +
                     (autocast ? ", autocast" : ""));
        NoLeaks guard;
        Net net;
        const Kept kept(net.parameters());
        auto given = [&](const TensorList& base) { return results ? results_of(base) : base; };
        auto cast = [&] {
          return std::make_unique<amp::Autocast>(test_device(), DType::bf16,
                                                 amp::AutocastOptions{.enabled = autocast});
        };
        const TensorList want_base = bases();
        const TensorList want = outcome(
            [&](const Tensor& x) {
              auto scope = cast();
              return plain(given(want_base), x);
            },
            want_base);
        const Call call = [&](const Tensor& x) { return net(x); };
        const std::vector<std::pair<const char*, std::function<Call(const TensorList&)>>> ways{
            {"a region in the call",
             [&](const TensorList& w) {
               return [&net, w, mode, call](const Tensor& x) {
                 return functional_call(net, named(w), [&] { return region(mode, call)(x); });
               };
             }},
            {"the call in a region",
             [&](const TensorList& w) {
               return region(mode, [&net, w](const Tensor& x) { return functional_call(net, named(w), x); });
             }},
            {"a region in a region in the call",
             [&](const TensorList& w) {
               return [&net, w, mode, call](const Tensor& x) {
                 return functional_call(net, named(w), [&] { return region(mode, region(mode, call))(x); });
               };
             }},
            {"a region in the call in a region",
             [&](const TensorList& w) {
               return region(mode, [&net, w, mode, call](const Tensor& x) {
                 return functional_call(net, named(w), [&] { return region(mode, call)(x); });
               });
             }},
            {"a call in a region in a call",
             [&](const TensorList& w) {
               return [&net, w, mode](const Tensor& x) {
                 return functional_call(net, {{"out.weight", w[2]}, {"out.bias", w[3]}}, [&] {
                   return region(mode, [&net, w](const Tensor& in) {
                     return functional_call(net, {{"hidden.weight", w[0]}, {"hidden.bias", w[1]}}, in);
                   })(x);
                 });
               };
             }},
        };
        for (const auto& [name, make] : ways) {
          SCOPED_TRACE(name);
          const TensorList base = bases();
          const TensorList got = outcome(
              [&](const Tensor& x) {
                auto scope = cast();
                return make(given(base))(x);
              },
              base);
          EXPECT_TRUE(same_bits(got, want));
          kept.expect_untouched();
        }
      }
}

TEST(FunctionalRecompute, ReplaysDoNotSeeWhatTheModuleHasSince) {
  for (const CheckpointMode mode : kModes) {
    Net net;
    const TensorList base = bases(), want_base = bases();
    const TensorList want =
        outcome([&](const Tensor& x) { return plain(results_of(want_base), x); }, want_base);
    const TensorList got = outcome(
        [&](const Tensor& x) {
          const Tensor y = functional_call(net, named(results_of(base)), [&] {
            return region(mode, [&](const Tensor& in) { return net(in); })(x);
          });
          NoGrad guard;
          for (const Tensor& own : net.parameters()) own.fill_(7);  // as an optimizer's step
          return y;
        },
        base);
    EXPECT_TRUE(same_bits(got, want));
    for (const Tensor& own : net.parameters()) EXPECT_TRUE(same_bits(own.detach(), full_like(own, 7)));
  }
}

TEST(FunctionalRecompute, RegionsFromOutsidePlayWithTheModulesOwnInACall) {
  for (const CheckpointMode mode : kModes) {
    Net net;
    const Tensor x = leaf({5, 4}), twin = leaf({5, 4});
    const Tensor y = region(mode, [&](const Tensor& in) { return net(in); })(x);
    functional_call(net, named(bases()), [&] { sum(square(y)).backward(); });
    TensorList got;
    for (const Tensor& own : net.parameters()) got.push_back(own.grad());
    net.zero_grad();
    sum(square(plain(net.parameters(), twin))).backward();
    EXPECT_TRUE(same_bits(x.grad(), twin.grad()));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], net.parameters()[i].grad())) << i;
  }
}

TEST(FunctionalRecompute, BackwardMayRunOnAnotherThread) {
  for (const CheckpointMode mode : kModes) {
    Net net;
    const TensorList base = bases(), want_base = bases();
    const Tensor x = leaf({5, 4}), twin = leaf({5, 4});
    const Tensor y = functional_call(net, named(results_of(base)), [&] {
      return region(mode, [&](const Tensor& in) { return net(in); })(x);
    });
    std::thread([&] { sum(square(y)).backward(); }).join();
    sum(square(plain(results_of(want_base), twin))).backward();
    EXPECT_TRUE(same_bits(x.grad(), twin.grad()));
    for (size_t i = 0; i < base.size(); ++i) EXPECT_TRUE(same_bits(base[i].grad(), want_base[i].grad())) << i;
  }
}

TEST(FunctionalRecompute, TwoCallsOfOneModuleInOneGraph) {
  for (const CheckpointMode mode : kModes) {
    Net net;
    const TensorList base = bases(), want_base = bases();
    auto twice = [](const auto& predict, const TensorList& w, const Tensor& x) {
      TensorList v = results_of(w);
      return predict(w, x) + predict(v, x) * 2.0 + predict(w, x * 0.5);
    };
    const TensorList want = outcome([&](const Tensor& x) { return twice(plain, want_base, x); }, want_base);
    const TensorList got = outcome(
        [&](const Tensor& x) {
          return twice(
              [&](const TensorList& w, const Tensor& in) {
                return functional_call(
                    net, named(w), [&] { return region(mode, [&](const Tensor& h) { return net(h); })(in); });
              },
              base, x);
        },
        base);
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(FunctionalRecompute, PoliciesAndWholeReplaysToo) {
  for (const bool early_stop : {false, true})
    for (const Determinism determinism : {Determinism::metadata, Determinism::values}) {
      Net net;
      const TensorList base = bases(), want_base = bases();
      const TensorList want =
          outcome([&](const Tensor& x) { return plain(results_of(want_base), x); }, want_base);
      for (const bool outside : {false, true}) {
        const CheckpointOptions options{
            .early_stop = early_stop, .determinism = determinism, .policy = save_matmuls()};
        const TensorList w = bases();
        const TensorList got = outcome(
            [&](const Tensor& x) {
              if (outside)
                return checkpoint(
                    [&](const Tensor& in) { return functional_call(net, named(results_of(w)), in); }, x,
                    options);
              return functional_call(net, named(results_of(w)), [&] {
                return checkpoint([&](const Tensor& in) { return net(in); }, x, options);
              });
            },
            w);
        EXPECT_TRUE(same_bits(got, want));
      }
    }
}

TEST(FunctionalRecompute, DifferentiatesThroughStepsOfARegion) {
  Net net;
  const Tensor x = numbers({5, 4}), target = numbers({5, 3}, 2);
  const TensorList got = bases(), want = bases();
  auto outer = [&](TensorList w, const auto& predict) {
    const TensorList slopes = grad({mse_loss(predict(w), target)}, w, {}, {.create_graph = true});
    for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] - slopes[i] * 0.1;
    return mse_loss(predict(w), target);
  };
  const Tensor loss = outer(got, [&](const TensorList& w) {
    return functional_call(net, named(w),
                           [&] { return checkpoint([&](const Tensor& in) { return net(in); }, x, {}); });
  });
  const Tensor expected = outer(want, [&](const TensorList& w) { return plain(w, x); });
  EXPECT_TRUE(same_bits(loss, expected));
  EXPECT_TRUE(same_bits(grad({loss}, got), grad({expected}, want)));
}

// The step itself in a region, and a region in that.
TEST(FunctionalRecompute, AnInnerStepInARegion) {
  for (const int kind : {0, 1, 2, 3}) {
    const bool nested = kind % 2 == 1, create_graph = kind > 1;
    NoLeaks guard;
    Net net;
    const Tensor target = numbers({5, 3}, 2);
    auto step = [&](TensorList w, const auto& predict) {
      const TensorList slopes = grad({mse_loss(predict(w), target)}, w, {}, {.create_graph = create_graph});
      for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] - slopes[i] * 0.1;
      return predict(w);
    };
    const TensorList base = bases(), want_base = bases();
    const TensorList want = outcome(
        [&](const Tensor& x) {
          return step(results_of(want_base), [&](const TensorList& w) { return plain(w, x); });
        },
        want_base);
    const TensorList got = outcome(
        [&](const Tensor& x) {
          return checkpoint(
              [&](const Tensor& in) {
                return step(results_of(base), [&](const TensorList& w) {
                  return functional_call(net, named(w), [&] {
                    if (!nested) return net(in);
                    return checkpoint([&net](const Tensor& h) { return net(h); }, in, {});
                  });
                });
              },
              x, {});
        },
        base);
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(FunctionalRecompute, AGivenTensorThatWasChangedSinceIsAnError) {
  for (const CheckpointMode mode : kModes) {
    Net net;
    const TensorList w = bases();
    const Tensor x = leaf({5, 4});
    auto run = [&] {
      return functional_call(net, named(w),
                             [&] { return sum(region(mode, [&](const Tensor& in) { return net(in); })(x)); });
    };
    Tensor y = run();
    {
      NoGrad guard;
      w[2].mul_(2.0);
    }
    expect_error([&] { y.backward(); }, {"checkpoint", "captured", "in place"});
    y = run();
    w[2].set_data(numbers({3, 6}, 9));
    expect_error([&] { y.backward(); }, {"checkpoint", "captured", "other data"});
    y = run();
    y.backward();
  }
}

TEST(FunctionalRecompute, GivenTensorsThatAreGoneSinceStay) {
  for (const CheckpointMode mode : kModes) {
    NoLeaks guard;
    Net net;
    const TensorList base = bases(), want_base = bases();
    const TensorList want =
        outcome([&](const Tensor& x) { return plain(results_of(want_base), x); }, want_base);
    const TensorList got = outcome(
        [&](const Tensor& x) {
          TensorList w = results_of(base);
          const nn::NamedTensors given = named(w);
          w.clear();
          return functional_call(net, given,
                                 [&] { return region(mode, [&](const Tensor& in) { return net(in); })(x); });
        },
        base);
    EXPECT_TRUE(same_bits(got, want));
  }
}

// Calls and regions within each other, drawn by a number: run by a Net with its handles, and by weights that are passed along.
class Nest {
 public:
  Nest(uint64_t seed, TensorList base) : seed_(seed), base_(std::move(base)) {}

  Tensor with_module(Net& net, const Tensor& x, uint64_t path, int depth) const {
    switch (choice(path, depth)) {
      case 0:
        return widened(net(x), x);
      case 1:
        return with_module(net, with_module(net, x, 3 * path, depth - 1), 3 * path + 1, depth - 1);
      case 2:
        return checkpoint(
            [this, &net, path, depth](const Tensor& in) { return with_module(net, in, 3 * path, depth - 1); },
            x, options(path));
      default: {
        nn::NamedTensors given;
        const nn::NamedTensors own = net.named_parameters();
        for (size_t i = 0; i < own.size(); ++i)
          if (is_given(path, i)) given.emplace_back(own[i].first, other(path, i, own[i].second));
        return functional_call(net, given, [&] { return with_module(net, x, 3 * path, depth - 1); });
      }
    }
  }

  Tensor with_weights(TensorList w, const Tensor& x, uint64_t path, int depth) const {
    switch (choice(path, depth)) {
      case 0:
        return widened(plain(w, x), x);
      case 1:
        return with_weights(w, with_weights(w, x, 3 * path, depth - 1), 3 * path + 1, depth - 1);
      case 2:
        return with_weights(w, x, 3 * path, depth - 1);
      default:
        for (size_t i = 0; i < w.size(); ++i)
          if (is_given(path, i)) w[i] = other(path, i, w[i]);
        return with_weights(w, x, 3 * path, depth - 1);
    }
  }

 private:
  uint64_t draw(uint64_t path, uint64_t what) const { return philox_block(seed_, path, what)[0]; }
  int choice(uint64_t path, int depth) const { return depth == 0 ? 0 : int(1 + draw(path, 0) % 3); }
  bool is_given(uint64_t path, size_t i) const { return draw(path, 1 + i) % 2 == 0; }
  // A leaf, what a leaf makes, or what it makes with the weight that there is.
  Tensor other(uint64_t path, size_t i, const Tensor& now) const {
    switch (draw(path, 5 + i) % 3) {
      case 0:
        return base_[i];
      case 1:
        return base_[i] * 0.5;
      default:
        return base_[i] * 0.25 + now * 0.5;
    }
  }
  CheckpointOptions options(uint64_t path) const {
    if (draw(path, 9) % 2 == 0) return {.mode = CheckpointMode::reentrant};
    return {.early_stop = draw(path, 10) % 2 == 0,
            .determinism = draw(path, 11) % 3 == 0 ? Determinism::values : Determinism::metadata,
            .policy = draw(path, 12) % 3 == 0 ? save_matmuls() : Policy()};
  }
  static Tensor widened(const Tensor& y, const Tensor& x) { return concat({tanh(y), slice(x, 1, 0, 1)}, 1); }

  uint64_t seed_;
  TensorList base_;
};

TEST(FunctionalRecompute, RandomNestsOfCallsAndRegions) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const bool autocast = seed % 2 == 1;
    SCOPED_TRACE(seed);
    NoLeaks guard;
    manual_seed(seed);
    Net net;
    manual_seed(seed);
    Net twin;
    const TensorList base = bases(), want_base = bases();
    const Nest nest(seed, base), want_nest(seed, want_base);
    const TensorList want =
        outcome([&](const Tensor& x) { return want_nest.with_weights(twin.parameters(), x, 1, 5); },
                want_base, autocast);
    const TensorList got =
        outcome([&](const Tensor& x) { return nest.with_module(net, x, 1, 5); }, base, autocast);
    EXPECT_TRUE(same_bits(got, want));
    const TensorList own = net.parameters(), twins = twin.parameters();
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(same_bits(own[i].grad(), twins[i].grad())) << i;
      EXPECT_TRUE(same_bits(own[i].detach(), twins[i].detach())) << i;
    }
  }
}

struct Scaling : nn::Layer {
  Tensor scale = register_parameter("scale", Tensor::from<float>({2, 3}, {2}).to(test_device()));
  Tensor forward(const Tensor& x) override {
    scale.mul_(2.0);
    scale.add_(x);
    return scale * x;
  }
};

TEST(FunctionalRecompute, OperationsInPlaceReachTheGivenTensorInReplays) {
  for (const CheckpointMode mode : kModes) {
    Scaling scaling;
    const Tensor x = leaf({2}, 1), twin = leaf({2}, 1), base = leaf({2}, 2), want_base = leaf({2}, 2);
    const Tensor y = checkpoint(
        [&](const TensorList& in) {
          const Tensor s = in[1] * 3.0;
          const Tensor out = functional_call(scaling, {{"scale", s}}, in[0]);
          return TensorList{out + s};
        },
        TensorList{x, base}, {.mode = mode})[0];
    const Tensor s = want_base * 3.0 * 2.0 + twin;
    const Tensor want = s * twin + s;
    EXPECT_TRUE(same_bits(y, want));
    sum(square(y)).backward();
    sum(square(want)).backward();
    EXPECT_TRUE(same_bits(x.grad(), twin.grad()) && same_bits(base.grad(), want_base.grad()));
    // From outside of a region it is refused as any such change is.
    const Tensor given = leaf({2}, 4) * 2.0;
    expect_error(
        [&] {
          const Tensor z = functional_call(scaling, {{"scale", given}}, [&] {
            return checkpoint([&](const Tensor& in) { return scaling(in); }, x, {.mode = mode});
          });
          sum(z).backward();
        },
        {"in place", "checkpoint"});
  }
}

TEST(FunctionalRecompute, StatisticsOfBatchNormAreUpdatedOnceWhereTheyWereGiven) {
  for (const CheckpointMode mode : kModes) {
    nn::BatchNorm1d norm(4, {}, test_device()), twin(4, {}, test_device());
    const Tensor mean_own = norm.running_mean.detach().clone(), mean = mean_own.clone();
    const Tensor x = leaf({6, 4}), y = leaf({6, 4});
    const Tensor w = numbers({4}, 3).set_requires_grad();
    {
      NoGrad guard;
      twin.weight.copy_(w);
    }
    sum(square(functional_call(norm, {{"running_mean", mean}, {"weight", w}}, [&] {
      return checkpoint([&](const Tensor& in) { return norm(in); }, x, {.mode = mode});
    }))).backward();
    sum(square(twin(y))).backward();
    EXPECT_TRUE(same_bits(mean, twin.running_mean));
    EXPECT_TRUE(same_bits(norm.running_mean, mean_own));
    EXPECT_TRUE(same_bits(x.grad(), y.grad()) && same_bits(w.grad(), twin.weight.grad()));
  }
}

}  // namespace
}  // namespace reprise
