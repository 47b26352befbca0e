// A replay that does something else than the first run, where what it saves looks the same: an Error that
// names the operation, what it was and what it is. What leads to nothing that is rebuilt does not matter.
#include "reprise/autograd/function.h"
#include "reprise/nn/layers.h"
#include "reprise/tests/autograd/recompute/offload/offload_support.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

using Body = std::function<Tensor(const Tensor&)>;

// `fn` is given whether it is called for the first time.
Tensor changing(const std::function<Tensor(const Tensor&, bool first)>& fn, const Tensor& x,
                const CheckpointOptions& options) {
  auto calls = std::make_shared<int>(0);
  return checkpoint([=](const Tensor& in) { return fn(in, (*calls)++ == 0); }, x, options);
}

void expect_difference(const std::function<Tensor(const Tensor&, bool)>& fn, std::vector<std::string> parts) {
  for (CheckpointMode mode : kModes)
    for (bool early_stop : {true, false}) {
      SCOPED_TRACE(std::string(testing::name_of(mode)) + (early_stop ? "" : ", to the end"));
      NoLeaks guard;
      Tensor y = changing(fn, leaf({4, 4}), {.mode = mode, .early_stop = early_stop});
      std::vector<std::string> all = parts;
      all.push_back("checkpoint: fn did something else when it was played again");
      expect_error([&] { y.sum().backward(); }, all);
    }
}

TEST(Provenance, FindsAnOperationThatIsLeftOutThoughItSavesNothing) {
  nn::Dropout drop(0.5);
  for (CheckpointMode mode : kModes) {
    drop.train();
    Tensor y = checkpoint([&](const Tensor& x) { return exp(drop(x)); }, leaf({4, 4}), {.mode = mode});
    drop.eval();
    expect_error([&] { y.sum().backward(); },
                 {"operation 0, dropout(f32(4, 4))", "in the replay it is input 0"});
  }
  expect_difference([](const Tensor& x, bool first) { return exp(first ? x * 2.0 : x); },
                    {"operation 0, affine", "it is input 0"});
  expect_difference([](const Tensor& x, bool first) { return exp(first ? x.transpose(0, 1) : x); },
                    {"operation 0, permute", "it is input 0"});
  expect_difference(
      [](const Tensor& x, bool first) {
        return sin(first ? x : sum(x, {1}, true).expand({4, 4}));
      },
      {"input 0", "in the replay it is the result of operation 1, expand"});
}

TEST(Provenance, FindsAnOperationThatIsAnother) {
  expect_difference([](const Tensor& x, bool first) { return exp(first ? x + x : x - x); },
                    {"operation 0, add(f32(4, 4), f32(4, 4))", "operation 0, sub"});
  expect_difference([](const Tensor& x, bool first) { return exp(first ? x + x.transpose(0, 1) : x + x); },
                    {"argument 1 of operation 1, add", "operation 0, permute"});
}

TEST(Provenance, FindsAnotherNumberFlagOrSize) {
  const char* other = "was given other numbers, sizes or flags";
  expect_difference([](const Tensor& x, bool first) { return exp(x * (first ? 2.0 : 3.0)); },
                    {"operation 0, affine(f32(4, 4))", other});
  expect_difference([](const Tensor& x, bool first) { return exp(dropout(x, first ? 0.5 : 0.25)); },
                    {"operation 0, dropout", other});
  expect_difference([](const Tensor& x, bool first) { return exp(x.slice(0, first ? 0 : 1, first ? 2 : 3)); },
                    {"operation 0, slice", other});
  expect_difference([](const Tensor& x, bool first) { return exp(x.select(1, first ? 0 : 3)); },
                    {"slice", other});
  auto square_of_heads = [](const Tensor& x, bool first) {
    Tensor qkv = concat({x, x, x}, 1).reshape({1, 4, 12});
    return square(packed_attention(qkv, 2, {.causal = first}));
  };
  expect_difference(square_of_heads, {"packed_attention", other});
}

TEST(Provenance, FindsATensorMadeInsideOfOtherNumbers) {
  expect_difference(
      [](const Tensor& x, bool first) { return exp(x + scalar(first ? 2 : 3, DType::f32, x.device())); },
      {"full", "other numbers"});
  expect_difference(
      [](const Tensor& x, bool first) {
        return exp(x + Tensor::from(std::vector<float>{1, 2, 3, first ? 4.f : 5.f}, {4}, x.device()));
      },
      {"argument 1 of operation 0, add", "made by hand, with other values"});
  expect_difference(
      [](const Tensor& x, bool first) {
        Tensor host = zeros({4});
        host.data<float>()[1] = first ? 1 : 2;
        return exp(x * host.to(x.device()));
      },
      {"made by hand, with other values"});
  expect_difference(
      [](const Tensor& x, bool first) {
        Tensor m = Tensor::zeros({4, 4}, DType::f32, x.device());
        m.fill_(first ? 1 : 2);
        return exp(x * m);
      },
      {"fill_", "other numbers"});
}

TEST(Provenance, FindsOtherRandomNumbers) {
  uint64_t seed = 1;
  for (CheckpointMode mode : kModes) {
    Generator generator;
    seed = 1;
    auto fn = [&](const Tensor& x) {
      generator = Generator(seed);
      return exp(dropout(x, 0.5, &generator));
    };
    Tensor y = checkpoint(fn, leaf({4, 4}), {.mode = mode});
    seed = 2;
    expect_error([&] { y.sum().backward(); }, {"operation 0, dropout", "drew other random numbers"});
  }
}

TEST(Provenance, FindsAChangeInsideOfANestedRegion) {
  for (CheckpointMode inside : kModes)
    expect_difference(
        [=](const Tensor& x, bool first) {
          auto inner = [=](const Tensor& in) { return first ? in * 2.0 : in; };
          return exp(checkpoint(inner, x, {.mode = inside}));
        },
        {"affine", "it is input 0"});
}

TEST(Provenance, IsComparedUnderPoliciesToo) {
  for (const Policy& policy : {Policy{"exp"}, Policy{"affine"}, Policy{"sin"}}) {
    Tensor y = changing([](const Tensor& x, bool first) { return square(exp(sin(first ? x * 2.0 : x))); },
                        leaf({4, 4}), {.policy = policy});
    expect_error([&] { y.sum().backward(); }, {"affine"});
  }
}

// The replay's factor of 3 is then in what exp saves, and in the reentrant mode in the graph too, where the other mode has the 2 of
// the first run.
TEST(Provenance, IsNotComparedWithDeterminismNone) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    Tensor y = changing([](const Tensor& in, bool first) { return exp(in * (first ? 2.0 : 3.0)); }, x,
                        {.mode = mode, .determinism = Determinism::none});
    y.sum().backward();
    const double factor = mode == CheckpointMode::reentrant ? 3 : 2;
    EXPECT_TRUE(testing::is_close(x.grad(), exp(x.detach() * 3.0) * factor, 1e-6)) << testing::name_of(mode);
  }
}

TEST(Provenance, LetsPassWhatLeadsToNothingThatIsRebuilt) {
  nn::Dropout drop(0.5);
  std::vector<double> seen;
  auto fn = [&](const Tensor& x) {
    if (!recompute::is_replaying()) {
      NoGrad beside_the_graph;
      seen.push_back(mean(square(x)).item());  // for a log
    }
    Tensor h = exp(x);
    if (recompute::is_replaying()) (h * 3.0).transpose(0, 1) + 1.0;
    return drop(h) * 2.0;  // the graph has the mask of the first run
  };
  for (CheckpointMode mode : {CheckpointMode::non_reentrant}) {
    Tensor x = leaf({4, 4}), want = leaf({4, 4});
    drop.train();
    manual_seed(1);
    sum(fn(want)).backward();
    manual_seed(1);
    Tensor y = checkpoint(fn, x, {.mode = mode});
    drop.eval();
    sum(y).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

TEST(Provenance, LetsPassACacheThatTheFirstRunFilled) {
  for (CheckpointMode mode : kModes) {
    Tensor mask, x = leaf({4, 4}), want = leaf({4, 4});
    auto fn = [&](const Tensor& in) {
      if (!mask.defined())
        mask = greater(Tensor::from(std::vector<float>{1, 0, 1, 0}, {4}, in.device()),
                       scalar(0.5, DType::f32, in.device()));
      return square(where(mask, sin(in), in));
    };
    sum(fn(want)).backward();
    mask = {};
    sum(checkpoint(fn, x, {.mode = mode})).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

TEST(Provenance, LetsPassCopiesOfOtherStrides) {
  // Around the region hooks give contiguous copies back, where contiguous() has nothing to copy.
  Tensor x = leaf({4, 3}), want = leaf({4, 3});
  auto fn = [](const Tensor& in) { return square(exp(in.contiguous())); };
  sum(fn(sin(want).transpose(0, 1))).backward();
  Tensor y;
  {
    autograd::SavedTensorHooks hooks([](const Tensor& t) { return std::any(t.contiguous()); },
                                     [](const std::any& t) { return std::any_cast<Tensor>(t); });
    y = checkpoint(fn, sin(x).transpose(0, 1));
  }
  sum(y).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
}

// x times a factor, an argument that it does not tell.
struct Times : autograd::Function<Times> {
  static constexpr const char* name = "times";
  double factor_ = 0;
  Tensor forward(const Tensor& x, double factor, const std::vector<int64_t>&, const std::string&) {
    factor_ = factor;
    return x * factor;
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * factor_}; }
};

// Inside of `inner`, x and what is given lie in one memory in the first run, and in a replay each by itself.
TEST(Provenance, LetsPassTwoViewsOfOneMemoryThatAReplayHasApart) {
  using Inner = Tensor (*)(const Tensor& x, const Tensor& given);
  Inner makes_what_was_given = [](const Tensor& x, const Tensor& given) {
    return exp(x.transpose(0, 1) * given) * given;
  };
  Inner makes_what_was_captured = [](const Tensor& x, const Tensor& given) {
    return exp(given.transpose(0, 1)) * x;
  };
  for (CheckpointMode mode : kModes)
    for (Inner inner : {makes_what_was_given, makes_what_was_captured})
      for (int depth : {1, 2, 3}) {
        SCOPED_TRACE(std::string(testing::name_of(mode)) + ", depth " + std::to_string(depth));
        NoLeaks guard;
        auto gradient = [&](bool recompute) {
          auto region = [&](const Body& body, const Tensor& x) {
            return recompute ? checkpoint(body, x, {.mode = mode, .offload = testing::all_sizes(0)})
                             : body(x);
          };
          Body body = [&](const Tensor& x) {
            return region([x, inner](const Tensor& given) { return inner(x, given); }, x.transpose(0, 1));
          };
          for (int level = 1; level < depth; ++level)
            body = [&, inside = body](const Tensor& x) { return region(inside, x * 0.5); };
          Tensor x = leaf({4, 4});
          body(x).sum().backward();
          return x.grad();
        };
        EXPECT_TRUE(same_bits(gradient(true), gradient(false)));
      }
}

TEST(Provenance, ComparesTheArgumentsOfAUsersOperation) {
  for (int which : {0, 1, 2})
    expect_difference(
        [=](const Tensor& x, bool first) {
          std::vector<int64_t> list{1, first || which != 1 ? 2 : 3};
          return exp(Times::apply(x, first || which != 0 ? 2.0 : 3.0, list,
                                  std::string(first || which != 2 ? "a" : "b")));
        },
        {"operation 0, times", "other numbers"});
}

TEST(Provenance, KeepsItsErrorWhereNothingMayBeThrownThroughFn) {
  int calls = 0;
  auto fn = [&](const Tensor& x) noexcept { return exp(sin(calls++ ? x : x * 2.0)); };
  Tensor y = checkpoint(fn, leaf({4, 4}), {.policy = {"exp"}});
  expect_error([&] { y.sum().backward(); }, {"operation 0, affine"});
}

TEST(Checkpoint, ThrowsNothingThroughANoexceptFn) {
  Tensor want = leaf({4, 4});
  sum(exp(sin(square(want)))).backward();
  for (const Policy& policy : {Policy(), Policy{"sin"}})
    for (bool as_arguments : {false, true}) {
      EarlyStop on(true);
      Tensor x = leaf({4, 4});
      double seen = 0;
      auto fn = [&](const Tensor& in) noexcept {
        Tensor h = square(in);
        seen = h.to_vector<float>()[0];
        return exp(sin(h));
      };
      if (as_arguments)
        sum(checkpoint([&](const Tensor& in, const Tensor&) noexcept { return fn(in); }, std::tuple{x, x},
                       {.policy = policy}))
            .backward();
      else
        sum(checkpoint(fn, x, {.policy = policy})).backward();
      EXPECT_TRUE(same_bits(x.grad(), want.grad()));
    }
}

TEST(Checkpoint, RefusesAnUndefinedResult) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    expect_error([&] { checkpoint([](const Tensor&) { return Tensor(); }, x, {.mode = mode}); },
                 {"checkpoint: fn returned an undefined tensor"});
    TensorList some = checkpoint(
        [](const Tensor& in) {
          return TensorList{exp(in), Tensor()};
        },
        x, {.mode = mode});
    EXPECT_FALSE(some[1].defined());
    sum(some[0]).backward();
  }
}

}  // namespace
}  // namespace reprise
