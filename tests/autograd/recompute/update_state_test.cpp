// A user's own modules that change state in forward: under checkpoints it has the bits of a run without them.
#include "reprise/autograd/recompute/update_state.h"

#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

/// Centres its input by the batch and keeps a moving average, the way a user would write it: by operations.
struct Centre {
  Tensor average = zeros({5}, DType::f32, test_device());
  int updates = 0;

  Tensor operator()(const Tensor& x) {
    Tensor centre = mean(x, {0});
    update_state([&] {
      average.copy_(average * 0.9 + centre * 0.1);
      ++updates;
    });
    return x - centre;
  }
};

using Wrap = std::function<Tensor(std::function<Tensor(const Tensor&)>, const Tensor&)>;

TensorList train(Centre& centre, const Wrap& wrap) {
  manual_seed(1);
  TensorList results;
  for (uint64_t step = 0; step < 3; ++step) {
    Tensor x = leaf({4, 5}, step);
    auto fn = [&centre](const Tensor& in) { return square(centre(dropout(square(centre(in)), 0.3))); };
    sum(wrap(fn, x)).backward();
    results.push_back(x.grad());
  }
  wrap([&centre](const Tensor& in) { return centre(in); }, leaf({4, 5}, 9));  // without backward
  results.push_back(centre.average.clone());
  return results;
}

TEST(UpdateState, KeepsEveryBitOfAUsersModule) {
  Centre plain;
  TensorList want = train(plain, [](auto fn, const Tensor& x) { return fn(x); });
  EXPECT_EQ(plain.updates, 7);
  for (CheckpointMode mode : kModes)
    for (int depth : {1, 2, 3}) {
      SCOPED_TRACE(detail::join(testing::name_of(mode), " at depth ", depth));
      Centre centre;
      TensorList got = train(centre, [&](std::function<Tensor(const Tensor&)> fn, const Tensor& x) {
        for (int i = 1; i < depth; ++i)
          fn = [fn, mode](const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); };
        return checkpoint(fn, x, {.mode = mode});
      });
      EXPECT_EQ(centre.updates, 7);
      EXPECT_TRUE(same_bits(got, want));
    }
}

TEST(UpdateState, KeepsEveryBitUnderAnyPolicy) {
  Centre plain;
  TensorList want = train(plain, [](auto fn, const Tensor& x) { return fn(x); });
  for (const char* saved : {"affine", "sub", "square", "dropout"}) {
    Centre centre;
    TensorList got = train(centre, [&](std::function<Tensor(const Tensor&)> fn, const Tensor& x) {
      return checkpoint(fn, x, {.policy = {saved}});
    });
    EXPECT_EQ(centre.updates, 7);
    EXPECT_TRUE(same_bits(got, want)) << saved;
  }
}

TEST(UpdateState, IsNotRecorded) {
  NoLeaks guard;
  Tensor x = leaf({4}), kept;
  update_state([&] { kept = x * 2.0; });
  EXPECT_FALSE(kept.requires_grad());
}

TEST(UpdateState, StillRejectsStateThatTheRegionReadBefore) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), state = numbers({4}, 2);
    auto fn = [&](const Tensor& in) {
      Tensor y = exp(in * state);
      update_state([&] { state.add_(in.detach()); });
      return y;
    };
    Tensor y = checkpoint(fn, x, {.mode = mode});
    expect_error([&] { sum(y).backward(); }, {"that fn captured", "version 1, was at 0"});
  }
}

TEST(UpdateState, IsAskedForWhereAReplayWouldChangeStateAgain) {
  for (CheckpointMode mode : kModes)
    for (bool nested : {false, true}) {
      Tensor x = leaf({4}), total = zeros({4}, DType::f32, test_device()), last = total.clone();
      auto fn = [&](const Tensor& in) {
        Tensor inner = zeros({4}, DType::f32, test_device());
        inner.add_(in.detach());  // its own: made anew in each run
        (nested ? last : total).add_(inner);
        return exp(square(in));
      };
      auto outer = [&](const Tensor& in) { return checkpoint(fn, in, {.mode = mode}); };
      Tensor y = nested ? checkpoint(outer, x, {.mode = mode}) : outer(x);
      expect_error([&] { sum(y).backward(); },
                   {"add_: a checkpoint plays its region again", "(4,)", "rp::update_state"});
      EXPECT_TRUE(same_bits(nested ? last : total, x.detach())) << "refused before it was written";
      EXPECT_FALSE(recompute::is_replaying());
    }
}

TEST(UpdateState, MayAlsoBeAQuestion) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), total = zeros({4}, DType::f32, test_device());
    auto fn = [&](const Tensor& in) {
      if (!recompute::is_replaying()) total.add_(in.detach());
      return exp(square(in));
    };
    sum(checkpoint(fn, x, {.mode = mode})).backward();
    EXPECT_TRUE(same_bits(total, x.detach()));
  }
}

TEST(UpdateState, DrawsFromAGeneratorOfItsOwnOnly) {
  Generator own(5);
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({64}), noise;
    auto draw = [&](bool from_own) {
      manual_seed(1);
      auto fn = [&, from_own](const Tensor& in) {
        Tensor h = square(dropout(in, 0.5));
        update_state([&] { noise = rand({4}, DType::f32, test_device(), from_own ? &own : nullptr); });
        return square(dropout(h, 0.5));
      };
      x.set_grad({});
      Tensor y = checkpoint(fn, x, {.mode = mode});
      sum(y).backward();
      // dy/dx = 4 y / x wherever both drops kept x.
      EXPECT_TRUE(testing::is_close((x.grad() * x).detach(), (y * 4.0).detach(), 1e-5));
    };
    draw(true);
    expect_error([&] { draw(false); }, {"update_state", "the thread's generator"});
  }
  EXPECT_EQ(own.state().offset, 2u) << "one draw for each first run";
}

}  // namespace
}  // namespace reprise
