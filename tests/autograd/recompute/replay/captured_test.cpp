// Tensors that fn reaches by itself, whatever reads them, and whatever happens to them before the replay.
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

using Reader = std::function<Tensor(const Tensor& x, const Tensor& captured)>;

struct Case {
  const char* name;  // the operation that an Error names
  Reader fn;
};

Tensor masked(const Tensor& mask, const Tensor& x) { return where(mask, x * x, x); }

const std::vector<Case>& cases() {
  static const std::vector<Case> cases = {
      {"greater", [](const Tensor& x, const Tensor& c) { return masked(greater(x, c), x); }},
      {"greater_equal", [](const Tensor& x, const Tensor& c) { return masked(greater_equal(x, c), x); }},
      {"less", [](const Tensor& x, const Tensor& c) { return masked(less(c, x), x); }},
      {"less_equal", [](const Tensor& x, const Tensor& c) { return masked(less_equal(c, x), x); }},
      {"equal", [](const Tensor& x,
                   const Tensor& c) { return masked(equal(c, scalar(0, DType::f32, c.device())), x); }},
      {"not_equal",
       [](const Tensor& x, const Tensor& c) {
         return masked(not_equal(c, scalar(0, DType::f32, c.device())), x);
       }},
      {"argmax", [](const Tensor& x, const Tensor& c) { return square(x) * argmax(c, -1).to(DType::f32); }},
      {"abs", [](const Tensor& x, const Tensor& c) { return square(x) * one_hot(abs(c).to(DType::i64), 4); }},
      {"slice", [](const Tensor& x, const Tensor& c) { return square(x) * c.select(0, 1).item(); }},
      {"code outside of operations",
       [](const Tensor& x, const Tensor& c) { return c.to_vector<float>()[2] > 0 ? square(x) : exp(x); }},
      {"code outside of operations",
       [](const Tensor& x, const Tensor& c) {
         return square(x) * double(c.to(Device::cpu()).data<float>()[0]);
       }},
      {"copy_",
       [](const Tensor& x, const Tensor& c) {
         Tensor own = Tensor::zeros({4}, DType::f32, c.device());
         own.copy_(c);
         return square(x) * own;
       }},
      {"add_",
       [](const Tensor& x, const Tensor& c) {
         Tensor own = Tensor::zeros({4}, DType::f32, c.device());
         own.add_(c, 2);
         return square(x) * own;
       }},
      {"slice", [](const Tensor& x, const Tensor& c) { return square(x) * c.slice(0, 0, 1); }},
      {"mul", [](const Tensor& x, const Tensor& c) { return square(x) * c; }},
  };
  return cases;
}

TEST(Captured, ChangedInPlaceIsAnErrorWhateverReadsIt) {
  for (CheckpointMode mode : kModes)
    for (Determinism determinism : {Determinism::metadata, Determinism::none})
      for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        Tensor x = leaf({4}), captured = numbers({4}, 2);
        auto fn = [&](const Tensor& in) { return c.fn(in, captured); };
        Tensor y = sum(checkpoint(fn, x, {.mode = mode, .determinism = determinism}));
        captured.fill_(100);
        bool is_read_through_a_copy =
            std::string(c.name).starts_with("code") && !testing::test_device().is_cpu();
        expect_error([&] { y.backward(); }, {"that fn captured was changed in place", "version 1, was at 0",
                                             is_read_through_a_copy ? "read it first" : c.name});
      }
}

TEST(Captured, UnchangedGivesTheSameBits) {
  for (CheckpointMode mode : kModes)
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      NoLeaks guard;
      Tensor x = leaf({4}), want = leaf({4}), captured = numbers({4}, 2);
      sum(c.fn(want, captured)).backward();
      sum(checkpoint([&](const Tensor& in) { return c.fn(in, captured); }, x, {.mode = mode})).backward();
      EXPECT_TRUE(same_bits(x.grad(), want.grad()));
    }
}

TEST(Captured, GivenOtherDataIsAnErrorWhateverReadsIt) {
  for (CheckpointMode mode : kModes)
    for (Determinism determinism : {Determinism::metadata, Determinism::none})
      for (const Case& c : cases())
        for (bool old_is_held : {false, true}) {
          SCOPED_TRACE(c.name);
          Tensor x = leaf({4}), captured = numbers({4}, 2);
          Tensor old = old_is_held ? captured.detach() : Tensor();
          auto fn = [&](const Tensor& in) { return c.fn(in, captured); };
          Tensor y = sum(checkpoint(fn, x, {.mode = mode, .determinism = determinism}));
          captured.set_data(numbers({4}, 3));
          expect_error([&] { y.backward(); }, {"that fn captured got other data", "set_data", "read it"});
        }
}

TEST(Captured, AnotherTensorInItsPlaceIsAnError) {
  for (CheckpointMode mode : kModes)
    for (bool old_is_held : {false, true}) {
      Tensor x = leaf({4}), captured = numbers({4}, 2), old = old_is_held ? captured : Tensor();
      Tensor y = sum(checkpoint([&](const Tensor& in) { return exp(in) * captured; }, x, {.mode = mode}));
      captured = {};
      captured = numbers({4}, 3);
      expect_error([&] { y.backward(); },
                   {"operation 1, mul", "that fn captured, in the replay it is another tensor"});
    }
}

TEST(Captured, AnotherDtypeOfAParameterIsAnError) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), w = leaf({4}, 2);
    Tensor y =
        sum(checkpoint([&](const Tensor& in) { return exp(in * w.to(DType::f32)); }, x, {.mode = mode}));
    {
      NoGrad guard;
      w.set_data(w.detach().to(DType::bf16));
    }
    expect_error([&] { y.backward(); }, {"got other data"});
  }
}

TEST(Captured, ByANestedRegionIsSeenToo) {
  for (CheckpointMode outside : kModes)
    for (CheckpointMode inside : kModes) {
      Tensor x = leaf({4}), captured = numbers({4}, 2);
      auto inner = [&](const Tensor& in) { return masked(greater(in, captured), in); };
      auto outer = [&](const Tensor& in) { return exp(checkpoint(inner, in, {.mode = inside})); };
      Tensor y = sum(checkpoint(outer, x, {.mode = outside}));
      captured.fill_(100);
      expect_error([&] { y.backward(); }, {"that fn captured was changed in place"});
    }
}

TEST(Captured, GradientsThatFnAddsToAreNotWhatItReads) {
  Tensor x = leaf({4}), w = leaf({4}, 2);
  auto fn = [&](const Tensor& in) {
    EnableGrad on;
    sum(square(in.detach() * w)).backward();
    return exp(in * w);
  };
  fn(x);
  Tensor y = sum(checkpoint(fn, x));
  {
    NoGrad guard;
    w.grad().mul_(0.5);
  }
  y.backward();
}

TEST(Captured, MayBeWrittenByTheFirstRunIfNothingReadsIt) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), count = zeros({}, DType::f32, testing::test_device());
    auto fn = [&](const Tensor& in) {
      if (!recompute::is_replaying()) count.add_(scalar(1, DType::f32, count.device()));
      return exp(in);
    };
    Tensor y = checkpoint(fn, x, {.mode = mode}), z = checkpoint(fn, x, {.mode = mode});
    sum(y + z).backward();
    EXPECT_EQ(count.item(), 2);
  }
}

}  // namespace
}  // namespace reprise
