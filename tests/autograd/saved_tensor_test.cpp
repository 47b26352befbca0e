// Saved tensors: versions, pack and unpack hooks.
#include "reprise/autograd/saved_tensor.h"

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using autograd::SavedTensorHooks;
using testing::expect_error;

Tensor leaf() { return Tensor::from<float>({1, 2, 3}, {3}).set_requires_grad(); }

TEST(SavedTensor, RejectsAMutatedInputNamingTheOp) {
  Tensor x = leaf(), y = square(x).sum();
  {
    NoGrad guard;
    x.mul_(2);
  }
  expect_error([&] { y.backward(); }, {"square", "(3,)", "changed in place", "version 1", "saved at 0"});
}

TEST(SavedTensor, RejectsAnOutputMutatedThroughAView) {
  Tensor x = leaf(), y = softmax(x), loss = sum(y * y.detach());
  {
    NoGrad guard;
    y.slice(0, 0, 1).zero_();
  }
  expect_error([&] { loss.backward(); }, {"changed in place"});
}

TEST(SavedTensor, AllowsWritesToWhatBackwardDoesNotRead) {
  Tensor x = leaf(), y = x + 1.0, z = y * 2.0;
  {
    NoGrad guard;
    y.zero_();
  }
  z.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 2, 2}));
}

TEST(SavedTensor, DoesNotKeepItsNodeAlive) {
  int64_t nodes = autograd::live_nodes(), blocks = allocator({}).stats().live_blocks;
  {
    Tensor x = leaf();
    Tensor y = softmax(x);
    Tensor z = max(y * x, {0});
  }
  EXPECT_EQ(autograd::live_nodes(), nodes);
  EXPECT_EQ(allocator({}).stats().live_blocks, blocks);
}

TEST(SavedTensorHooks, ReplaceWhatBackwardReads) {
  Tensor x = leaf(), y;
  {
    SavedTensorHooks hooks([](const Tensor& kept) { return std::any(kept.shape()); },
                           [](const std::any& shape) { return full(std::any_cast<Shape>(shape), 10); });
    y = square(x).sum();
  }
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{20, 20, 20}));
}

TEST(SavedTensorHooks, TheInnermostScopeWinsAndTheOuterReturns) {
  Tensor x = leaf();
  std::string packed;
  auto pack_as = [&](char name) {
    return [&packed, name](const Tensor& kept) {
      packed += name;
      return std::any(kept);
    };
  };
  auto unpack = [](const std::any& kept) { return std::any_cast<Tensor>(kept); };
  {
    SavedTensorHooks outer(pack_as('o'), unpack);
    square(x);
    {
      SavedTensorHooks inner(pack_as('i'), unpack);
      square(x);
    }
    square(x);
  }
  square(x);
  EXPECT_EQ(packed, "oio");
}

TEST(SavedTensorHooks, DoNotPackWhatAHookComputes) {
  Tensor x = leaf();
  int packs = 0;
  SavedTensorHooks hooks(
      [&](const Tensor& kept) {
        ++packs;
        EnableGrad guard;
        Tensor inside = kept.detach().set_requires_grad();
        square(inside);
        return std::any(kept);
      },
      [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  square(x);
  EXPECT_EQ(packs, 1);
}

TEST(SavedTensorHooks, ThatThrowLeaveTheScopeUsable) {
  Tensor x = leaf();
  bool throws = true;
  int packs = 0;
  SavedTensorHooks hooks(
      [&](const Tensor& kept) {
        if (throws) fail("pack: no room");
        ++packs;
        return std::any(kept);
      },
      [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  expect_error([&] { square(x); }, {"no room"});
  throws = false;
  square(x).sum().backward();
  EXPECT_EQ(packs, 1);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 4, 6}));
}

TEST(SavedTensorHooks, ErrorIfUnpackGivesNothing) {
  Tensor x = leaf(), y;
  {
    SavedTensorHooks hooks([](const Tensor&) { return std::any(); },
                           [](const std::any&) { return Tensor(); });
    y = square(x).sum();
  }
  expect_error([&] { y.backward(); }, {"square", "unpack"});
}

TEST(SavedTensorHooks, MayNotChangeWhatTheyPack) {
  Tensor x = leaf();
  SavedTensorHooks hooks([](const Tensor& kept) { return std::any(kept.mul_(2).clone()); },
                         [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  expect_error([&] { square(x); }, {"square", "pack hook", "in place", "(3,)"});
  expect_error([&] { softmax(x); }, {"softmax", "pack hook", "in place"});
}

TEST(SavedTensorHooks, KeepThePlaceInTheGraphForGradientsOfGradients) {
  Tensor x = Tensor::from<double>({3}, {1}).set_requires_grad(), y;
  {
    SavedTensorHooks hooks([](const Tensor& kept) { return std::any(kept.clone()); },
                           [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
    y = exp(square(x) * 0.5);
  }
  Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];  // x y
  Tensor second = grad({first}, {x})[0];                         // y + x^2 y
  EXPECT_NEAR(second.item() / y.item(), 10, 1e-12);
}

TEST(SavedTensorHooks, SeeDataOutsideAnyGraphInItsOwnShape) {
  Tensor x = leaf();
  SavedTensorHooks hooks(
      [](const Tensor& kept) {
        EXPECT_FALSE(kept.requires_grad());
        EXPECT_FALSE(autograd::grad_mode_enabled());
        EXPECT_EQ(kept.shape(), Shape{3});
        return std::any(kept);
      },
      [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  exp(square(x)).sum().backward();
}

}  // namespace
}  // namespace reprise
