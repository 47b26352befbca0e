// PassLocal: one value per backward pass, gone with it; none outside of any.
#include "reprise/autograd/pass_local.h"

#include <gtest/gtest.h>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"

namespace reprise {
namespace {

struct Counted {
  static inline int alive = 0;
  int calls = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};

TEST(PassLocal, IsOneValuePerPassAndGoesWithIt) {
  autograd::PassLocal<Counted> local, other;
  EXPECT_EQ(local.get(), nullptr);
  Tensor x = Tensor::from<float>({1, 2}, {2}).set_requires_grad();
  Tensor a = exp(x), b = square(a);
  std::vector<int> seen;
  auto hook = [&](const Tensor&) {
    seen.push_back(local.get()->calls++);
    EXPECT_NE(local.get(), other.get());
    return Tensor();
  };
  a.register_hook(hook);
  b.register_hook(hook);
  for (int pass = 0; pass < 2; ++pass) {
    sum(b).backward({}, true);
    EXPECT_EQ(Counted::alive, 0);
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 0, 1}));
}

TEST(PassLocal, IsTheNestedPassesOwn) {
  autograd::PassLocal<Counted> local;
  Tensor x = Tensor::from<float>({1, 2}, {2}).set_requires_grad();
  Tensor y = exp(x), z = square(Tensor::from<float>({3}, {1}).set_requires_grad());
  int inner = -1;
  z.register_hook([&](const Tensor&) {
    inner = local.get()->calls++;
    return Tensor();
  });
  y.register_hook([&](const Tensor&) {
    local.get()->calls = 5;
    z.backward();
    EXPECT_EQ(local.get()->calls, 5);
    return Tensor();
  });
  sum(y).backward();
  EXPECT_EQ(inner, 0);
}

}  // namespace
}  // namespace reprise
