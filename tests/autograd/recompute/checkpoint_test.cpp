// Checkpoints in both modes: the bits of a run without them, how often fn is called, forms of input and
// output.
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::Batch;
using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

struct Results {
  Tensor output;
  TensorList grads;
};

// Gradients of sum(wrap(fn)(x) * numbers) for x and the weights.
template <class Forward>
Results run(const Forward& forward) {
  Tensor x = leaf({3, 5}, 1), w = leaf({7, 5}, 2), b = leaf({7}, 3);
  manual_seed(11);
  Tensor y = forward(x, w, b);
  sum(y * numbers(y.shape(), 4)).backward();
  return {y.detach(),
          {x.grad(), w.grad(), b.grad(),
           Tensor::from<double>({double(default_generator().state().offset)}, {1})}};
}

void expect_same(const Results& got, const Results& want) {
  EXPECT_TRUE(same_bits(got.output, want.output)) << "output";
  EXPECT_TRUE(same_bits(got.grads, want.grads));
}

// Runs `fn(x, w, b)` plainly and under a checkpoint that captures w and b, then with all three as inputs.
template <class Fn>
void expect_same_bits_in_all_modes(const Fn& fn) {
  Results want = run(fn);
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(testing::name_of(mode));
    NoLeaks guard;
    expect_same(run([&](const Tensor& x, const Tensor& w, const Tensor& b) {
                  return checkpoint([=](const Tensor& in) { return fn(in, w, b); }, x, {.mode = mode});
                }),
                want);
    expect_same(run([&](const Tensor& x, const Tensor& w, const Tensor& b) {
                  return checkpoint(fn, std::tuple{x, w, b}, {.mode = mode});
                }),
                want);
  }
}

TEST(Checkpoint, KeepsTheBitsOfOutputsAndGradients) {
  expect_same_bits_in_all_modes([](const Tensor& x, const Tensor& w, const Tensor& b) {
    return softmax(layer_norm(gelu(linear(x, w, b)), {}, {}));
  });
}

TEST(Checkpoint, DrawsTheSameDropoutInTheReplay) {
  expect_same_bits_in_all_modes([](const Tensor& x, const Tensor& w, const Tensor& b) {
    Tensor h = dropout(square(dropout(x, 0.3)), 0.5);
    return square(dropout(linear(h, w, b), 0.2) + rand({7}, DType::f32, x.device()));
  });
}

TEST(Checkpoint, LeavesLaterDrawsAlone) {
  expect_same_bits_in_all_modes([](const Tensor& x, const Tensor& w, const Tensor& b) {
    return dropout(square(linear(dropout(square(x), 0.5), w, b)), 0.5);
  });
}

TEST(Checkpoint, RestoresTheGeneratorsThatAreTheUsersOwn) {
  Results want, got;
  auto fn = [](const Tensor& x, const Tensor& w, const Tensor& b, Generator& generator) {
    Tensor h = square(dropout(square(x), 0.5, &generator));
    return square(dropout(linear(h, w, b), 0.5, &generator));
  };
  Generator plain(5);
  want = run([&](const Tensor& x, const Tensor& w, const Tensor& b) { return fn(x, w, b, plain); });
  for (CheckpointMode mode : kModes) {
    Generator own(5);
    got = run([&](const Tensor& x, const Tensor& w, const Tensor& b) {
      return checkpoint([=, &own](const Tensor& in) { return fn(in, w, b, own); }, x, {.mode = mode});
    });
    expect_same(got, want);
    EXPECT_EQ(own.state(), plain.state());
  }
}

TEST(Checkpoint, DrawsAnewInTheReplayWithoutPreserveRng) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({64});
    manual_seed(1);
    auto fn = [](const Tensor& in) { return square(dropout(in, 0.5)); };
    Tensor y = checkpoint(fn, x, {.mode = mode, .preserve_rng = false});
    EXPECT_EQ(default_generator().state().offset, 1u);
    y.sum().backward();
    EXPECT_EQ(default_generator().state().offset, 2u);
  }
}

TEST(Checkpoint, CallsFnOnceForwardAndOnceInEachBackward) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    int calls = 0;
    Tensor y = checkpoint([&](const Tensor& in) { return ++calls, exp(square(in)); }, x, {.mode = mode});
    EXPECT_EQ(calls, 1);
    y.sum().backward({}, /*retain_graph=*/true);
    EXPECT_EQ(calls, 2);
    Tensor first = x.grad().detach().clone();
    x.set_grad({});
    y.sum().backward();
    EXPECT_EQ(calls, 3);
    EXPECT_TRUE(same_bits(x.grad(), first));
  }
}

TEST(Checkpoint, HoldsNoMoreThanInputsAndOutputsUntilBackward) {
  for (CheckpointMode mode : kModes) {
    NoLeaks guard;
    Tensor x = leaf({1000});
    auto fn = [](const Tensor& in) {
      Tensor h = in;
      for (int i = 0; i < 8; ++i) h = sin(h);
      return h;
    };
    Allocator& memory = allocator(testing::test_device());
    int64_t before = memory.stats().live_blocks;
    Tensor y = checkpoint(fn, x, {.mode = mode});
    EXPECT_EQ(memory.stats().live_blocks, before + 1);
    memory.reset_peaks();
    y.sum().backward();
    EXPECT_GE(memory.stats().peak_by_category[size_t(MemoryCategory::recompute)], 7 * 4000u);
    EXPECT_EQ(memory.stats().by_category[size_t(MemoryCategory::recompute)], 0u);
  }
}

TEST(Checkpoint, IsThePlainCallUnderNoGrad) {
  for (CheckpointMode mode : kModes) {
    NoGrad guard;
    Tensor x = leaf({4});
    int calls = 0;
    Tensor y = checkpoint([&](const Tensor& in) { return ++calls, square(in); }, x, {.mode = mode});
    EXPECT_FALSE(y.requires_grad());
    EXPECT_EQ(calls, 1);
  }
}

TEST(Checkpoint, TakesAndReturnsListsMapsTuplesAndStructs) {
  for (CheckpointMode mode : kModes) {
    CheckpointOptions options{.mode = mode};
    Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    auto expect_product = [&](const Tensor& y) {
      x.set_grad({});
      w.set_grad({});
      square(y).sum().backward();
      EXPECT_TRUE(same_bits(x.grad(), (x * w * 2.0 * w).detach()));
      EXPECT_TRUE(same_bits(w.grad(), (x * w * 2.0 * x).detach()));
    };
    expect_product(checkpoint([](const TensorList& in) { return in[0] * in[1]; }, {x, w}, options));
    expect_product(checkpoint(
        [](const TensorList& in) {
          return TensorList{in[0], in[0] * in[1]};
        },
        {x, w}, options)[1]);
    using Dict = std::map<std::string, Tensor>;
    auto from_dict = [](const Dict& in) { return Dict{{"z", in.at("b") * in.at("a")}}; };
    Tensor z = checkpoint(from_dict, Dict{{"b", x}, {"a", w}}, options).at("z");
    expect_product(z);
    auto of_tuple = [](const Tensor& a, double factor, const std::optional<Tensor>& none, const Tensor& b) {
      EXPECT_FALSE(none.has_value());
      return std::pair{a * b, factor};
    };
    auto [product, factor] = checkpoint(of_tuple, std::tuple{x, 2.5, std::optional<Tensor>(), w}, options);
    expect_product(product);
    EXPECT_EQ(factor, 2.5);
    auto of_struct = [](const Batch& in) { return Batch{in.values * in.mask, Tensor(), in.step + 1}; };
    Batch batch = checkpoint(of_struct, Batch{x, w, 6}, options);
    EXPECT_EQ(batch.step, 7);
    EXPECT_FALSE(batch.mask.defined());
    expect_product(batch.values);
  }
}

TEST(Checkpoint, TakesNoArgumentsAndUndefinedOnes) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), y;
    y = checkpoint(
        [&](const TensorList& in) {
          EXPECT_TRUE(in.empty());
          return exp(square(x));
        },
        {}, {.mode = mode});
    y.sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), (exp(square(x)) * (x * 2.0)).detach()));
    y = checkpoint(
        [&](const TensorList& in) {
          EXPECT_FALSE(in[1].defined());
          return square(in[0]);
        },
        {x, Tensor()}, {.mode = mode});
    y.sum().backward();
  }
}

TEST(Checkpoint, TakesIntegerInputs) {
  for (CheckpointMode mode : kModes) {
    Tensor table = leaf({5, 3}), rows = Tensor::from<int64_t>({4, 0, 4}, {3}).to(testing::test_device());
    auto fn = [](const Tensor& weight, const Tensor& index) { return square(embedding(weight, index)); };
    fn(table, rows).sum().backward();
    Tensor want = table.grad();
    table.set_grad({});
    checkpoint(fn, std::tuple{table, rows}, {.mode = mode}).sum().backward();
    EXPECT_TRUE(same_bits(table.grad(), want));
  }
}

TEST(Checkpoint, WorksWhereOneOutputHasNoGradient) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    auto fn = [](const Tensor& in) {
      Tensor detached = square(in.detach());
      Tensor quiet;
      {
        NoGrad guard;
        quiet = exp(in);
      }
      return TensorList{exp(in), detached, quiet, square(in)};
    };
    TensorList plain = fn(x);
    (plain[0] * plain[1] + plain[2]).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    TensorList out = checkpoint(fn, x, {.mode = mode});
    (out[0] * out[1] + out[2]).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
}

TEST(Checkpoint, PassesOnAnInputThatFnReturns) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), h = x * 1.0;
    auto fn = [](const Tensor& in) { return TensorList{in, square(in), in}; };
    TensorList out = checkpoint(fn, h, {.mode = mode});
    (out[0] * out[1] * out[2]).sum().backward();
    Tensor got = x.grad();
    x.set_grad({});
    TensorList plain = fn(h);
    h = x * 1.0;
    plain = fn(h);
    (plain[0] * plain[1] * plain[2]).sum().backward();
    EXPECT_TRUE(same_bits(got, x.grad()));
  }
}

TEST(Checkpoint, LeavesTensorsWithoutGradientThatFnReturnsAlone) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), given = numbers({4}, 2), captured = numbers({4}, 3);
    auto fn = [captured](const TensorList& in) { return TensorList{exp(in[0]), in[1], captured, captured}; };
    TensorList out = checkpoint(fn, {x, given}, {.mode = mode});
    EXPECT_FALSE(given.requires_grad());
    EXPECT_FALSE(captured.requires_grad());
    (out[0] * out[1] * out[2] * out[3]).sum().backward();
    Tensor got = x.grad();
    x.set_grad({});
    TensorList plain = fn({x, given});
    (plain[0] * plain[1] * plain[2] * plain[3]).sum().backward();
    EXPECT_TRUE(same_bits(got, x.grad()));
  }
}

TEST(Checkpoint, AddsUpSharedWeightsInTheOrderOfARunWithoutIt) {
  auto total = [](const Tensor& x, const Tensor& w, auto wrap) {
    Tensor h = square(linear(x, w));  // outside
    for (int i = 0; i < 3; ++i) {
      h = wrap([w](const Tensor& in) { return linear(gelu(linear(in, w)), w) + in; }, h);
      h = h + layer_norm(x, w.select(0, 0), {});
    }
    return sum(square(linear(h, w)) * 0.001);
  };
  Tensor x = leaf({5, 5}, 1), w = leaf({5, 5}, 2);
  Tensor before = numbers({5, 5}, 3);
  auto grads = [&](auto wrap) {
    x.set_grad({});
    w.set_grad(before.clone());  // gradient accumulation goes on
    int whole = 0;
    auto remove = autograd::register_post_accumulate_hook(w, [&] { ++whole; });
    total(x, w, wrap).backward();
    remove();
    EXPECT_EQ(whole, 1) << "the gradient of a leaf is whole once a pass";
    return TensorList{x.grad(), w.grad()};
  };
  TensorList want = grads([](auto fn, const Tensor& in) { return fn(in); });
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(testing::name_of(mode));
    TensorList got = grads([mode](auto fn, const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); });
    EXPECT_TRUE(same_bits(got[0], want[0]));
    EXPECT_TRUE(same_bits(got[1], want[1]));
  }
}

TEST(Checkpoint, SendsGradientsThroughTensorsThatFnCaptured) {
  for (CheckpointMode mode : kModes) {
    auto grad_of = [&](bool with) {
      Tensor x = leaf({4}, 1), w = leaf({4}, 2), h = exp(w);
      auto fn = [h](const Tensor& in) { return square(in * h) * in; };
      Tensor y = with ? checkpoint(fn, x, {.mode = mode}) : fn(x);
      (y * h).sum().backward();
      return TensorList{x.grad(), w.grad()};
    };
    TensorList want = grad_of(false), got = grad_of(true);
    EXPECT_TRUE(same_bits(got[0], want[0]));
    EXPECT_TRUE(same_bits(got[1], want[1]));
  }
}

TEST(Checkpoint, ThatCapturesItsInputTooIsRight) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), h = exp(x);
    (h * h).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    h = exp(x);
    checkpoint([h](const Tensor& in) { return in * h; }, h, {.mode = mode}).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
}

TEST(Checkpoint, TakesOneTensorTwice) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    auto fn = [](const TensorList& in) { return in[0] * in[1] * in[0]; };
    fn({x, x}).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    checkpoint(fn, {x, x}, {.mode = mode}).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
}

TEST(Checkpoint, RunsHooksOnce) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), w = leaf({4}, 2);
    int input = 0, weight = 0, output = 0;
    x.register_hook([&](const Tensor&) { return ++input, Tensor(); });
    w.register_hook([&](const Tensor& dw) { return ++weight, dw * 2.0; });
    Tensor y = checkpoint([w](const Tensor& in) { return square(in * w) * w; }, x, {.mode = mode});
    y.register_hook([&](const Tensor&) { return ++output, Tensor(); });
    y.sum().backward();
    EXPECT_EQ(input, 1);
    EXPECT_EQ(weight, 1);
    EXPECT_EQ(output, 1);
  }
}

TEST(Checkpoint, LeavesTheEngineUsableAfterAnErrorInFn) {
  for (CheckpointMode mode : kModes) {
    NoLeaks guard;
    Tensor x = leaf({4});
    int calls = 0, throw_at = 1;
    auto fn = [&](const Tensor& in) {
      Tensor h = square(dropout(in, 0.5));
      if (++calls == throw_at) fail("fn: no");
      return exp(h);
    };
    expect_error([&] { checkpoint(fn, x, {.mode = mode}); }, {"fn: no"});
    throw_at = 3;
    Tensor y = checkpoint(fn, x, {.mode = mode});
    Generator::State state = default_generator().state();
    expect_error([&] { y.sum().backward({}, true); }, {"fn: no"});
    EXPECT_EQ(default_generator().state(), state);
    EXPECT_TRUE(autograd::grad_mode_enabled());
    EXPECT_FALSE(recompute::is_replaying());
    EXPECT_FALSE(autograd::in_backward());
    y.sum().backward();
    EXPECT_EQ(calls, 4);
    Tensor plain = square(x).sum();
    plain.backward();
  }
}

TEST(Checkpoint, ASecondBackwardIsTheUsualError) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    Tensor y = checkpoint([](const Tensor& in) { return exp(square(in)); }, x, {.mode = mode});
    y.sum().backward();
    expect_error([&] { y.sum().backward(); }, {"second time", "retain_graph"});
  }
}

TEST(Checkpoint, TellsFnWhetherItIsReplayed) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), running = zeros({4});
    auto fn = [&](const Tensor& in) {
      if (!recompute::is_replaying()) {
        NoGrad guard;
        running.add_(in.detach().to(Device::cpu()));
      }
      return exp(square(in));
    };
    checkpoint(fn, x, {.mode = mode}).sum().backward();
    checkpoint([&](const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); }, x, {.mode = mode})
        .sum()
        .backward();
    NoGrad guard;
    EXPECT_TRUE(same_bits(running, (x + x).to(Device::cpu())));
    EXPECT_FALSE(recompute::is_replaying());
  }
}

}  // namespace
}  // namespace reprise
