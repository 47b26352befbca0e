// Autocast's scopes, its shadows of weights, and what backward does. The reference is the same computation with casts
// written by hand.
#include "reprise/autograd/amp/autocast.h"

#include <cmath>
#include <thread>

#include "reprise/autograd/function.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using amp::Autocast;
using testing::expect_error;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

std::optional<DType> here() { return amp::autocast_dtype(test_device()); }
DType product_dtype() { return matmul(numbers({2, 3}), numbers({3, 2})).dtype(); }

TEST(AutocastScope, TheInnermostWinsAndEndsWithItsScope) {
  EXPECT_EQ(here(), std::nullopt);
  {
    Autocast outer(test_device(), DType::bf16);
    EXPECT_EQ(product_dtype(), DType::bf16);
    {
      Autocast inner(test_device(), DType::f16);
      EXPECT_EQ(product_dtype(), DType::f16);
      Autocast off(test_device(), DType::bf16, {.enabled = false});
      EXPECT_EQ(here(), std::nullopt);
      EXPECT_EQ(product_dtype(), DType::f32);
    }
    EXPECT_EQ(here(), DType::bf16);
    try {
      Autocast off(test_device(), DType::f16, {.enabled = false});
      throw Error("thrown through a scope");
    } catch (const Error&) {}
    EXPECT_EQ(product_dtype(), DType::bf16);
  }
  EXPECT_EQ(product_dtype(), DType::f32);
}

TEST(AutocastScope, BelongsToItsThreadAndTypeOfDevice) {
  Autocast scope(test_device(), DType::bf16);
  std::optional<DType> elsewhere = DType::f64;
  std::thread([&] { elsewhere = here(); }).join();
  EXPECT_EQ(elsewhere, std::nullopt);
  const Device other = test_device().is_cpu() ? Device::cuda() : Device::cpu();
  EXPECT_EQ(amp::autocast_dtype(other), std::nullopt);
}

TEST(AutocastScope, OfOneDeviceLeavesTheOtherStrict) {
  amp::AutocastState state;  // of the other type of device, which need not be there
  state.devices[test_device().is_cpu() ? 1 : 0].dtype = DType::bf16;
  state.any = true;
  amp::RestoreAutocast scope(state);
  const Tensor x = numbers({2, 4}).to(DType::bf16), w = numbers({4, 4}).to(DType::bf16), bias = numbers({4});
  expect_error([&] { linear(x, w, bias); }, "linear: bias f32");
  EXPECT_EQ(cross_entropy(x, zeros({2}, DType::i64, test_device())).dtype(), DType::bf16);
  EXPECT_EQ(product_dtype(), DType::f32);
}

TEST(AutocastScope, RefusesOtherDtypesAndMissingDevices) {
  expect_error([] { Autocast(test_device(), DType::f32); },
               "autocast: needs bf16 or f16, got f32; to switch it off, enabled = false");
  expect_error([] { Autocast(test_device(), DType::i64); }, "autocast: needs bf16 or f16, got i64");
  EXPECT_THROW(Autocast(Device::cuda(1000), DType::bf16), Error);
  EXPECT_EQ(here(), std::nullopt);
}

bool is_bug(std::unique_ptr<Autocast>& scope) {
  try {
    delete scope.release();
  } catch (const Bug&) { return true; }
  return false;
}

TEST(AutocastScope, OutOfOrderOrOnAnotherThreadIsABug) {
  std::thread([] {  // which has no scopes any more after this
    auto outer = std::make_unique<Autocast>(test_device(), DType::bf16);
    auto inner = std::make_unique<Autocast>(test_device(), DType::f16);
    EXPECT_TRUE(is_bug(outer));
    EXPECT_EQ(here(), DType::f16) << "nothing is restored";
    std::thread([&] { EXPECT_TRUE(is_bug(inner)); }).join();
    EXPECT_EQ(here(), DType::f16);
  })
      .join();
}

// y = gelu(x w^T) v^T summed: with casts by hand, or by autocast.
struct TwoLayers {
  Tensor w = leaf({6, 8}, 2), v = leaf({3, 6}, 3);

  Tensor by_hand(const Tensor& x, DType dtype) const {
    Tensor hidden = gelu(linear(x.to(dtype), w.to(dtype)));
    return sum(linear(hidden, v.to(dtype)).to(DType::f32));
  }
  Tensor operator()(const Tensor& x) const { return sum(linear(gelu(linear(x, w)), v)); }
  Tensor gradients() const { return concat({reshape(w.grad(), {48}), reshape(v.grad(), {18})}, 0); }
  void zero() const { w.set_grad({}), v.set_grad({}); }
};

// The gradient of a weight comes out of the product in f32, where the cast by hand has it rounded to 16 bits: equal
// after rounding.
TEST(Autocast, HasTheBitsOfCastsByHand) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    NoLeaks guard;
    TwoLayers net;
    const Tensor x = leaf({5, 8}, 1);
    net.by_hand(x, dtype).backward();
    const Tensor want = net.gradients(), dx = x.grad();
    net.zero(), x.set_grad({});
    Tensor loss;
    {
      Autocast scope(test_device(), dtype);
      loss = net(x);
    }
    EXPECT_EQ(loss.dtype(), DType::f32);
    loss.backward();
    EXPECT_EQ(net.w.grad().dtype(), DType::f32);
    EXPECT_TRUE(same_bits(x.grad(), dx));
    EXPECT_TRUE(same_bits(net.gradients().to(dtype), want.to(dtype)));
    EXPECT_FALSE(same_bits(net.gradients(), want)) << "dW was rounded to " << dtype;
    net.zero(), x.set_grad({});
  }
}

TEST(Autocast, AddsAWeightUsedTwiceInF32) {
  const Tensor w = leaf({1, 1}, 1);
  Tensor loss;
  {
    Autocast scope(test_device(), DType::bf16);
    const Tensor big = full({1, 1}, 256, DType::f32, test_device()),
                 one = ones({1, 1}, DType::f32, test_device());
    loss = sum(linear(big, w)) + sum(linear(one, w));
  }
  loss.backward();
  EXPECT_EQ(w.grad().item(), 257);  // bf16 has 256 and 258
}

TEST(Autocast, BackwardKeepsTheDtypesOfForwardInsideAnyScope) {
  const Tensor x = numbers({5, 8}, 1);
  Tensor want;
  for (int around = 0; around < 3; ++around) {
    TwoLayers net;
    Tensor loss;
    {
      Autocast scope(test_device(), DType::bf16);
      loss = net(x);
      if (around == 1) loss.backward();
    }
    if (around == 0) loss.backward();
    if (around == 2) {
      Autocast scope(test_device(), DType::f16);
      loss.backward();
    }
    if (!want.defined()) want = net.gradients();
    EXPECT_TRUE(same_bits(net.gradients(), want)) << around;
  }
}

size_t parameter_bytes() {
  return allocator(test_device()).stats().by_category[size_t(MemoryCategory::parameters)];
}

TEST(AutocastShadows, LiveAsLongAsTheOptionSays) {
  TwoLayers net;
  const Tensor x = numbers({5, 8}, 1);
  const size_t before = parameter_bytes(), shadows = 2 * (48 + 18);
  Tensor want;
  for (amp::Shadows kept : {amp::Shadows::none, amp::Shadows::forward, amp::Shadows::step}) {
    Tensor loss;
    {
      Autocast scope(test_device(), DType::bf16, {.weights = kept});
      loss = net(x);
      EXPECT_EQ(parameter_bytes() - before, kept == amp::Shadows::none ? 0 : shadows);
      { Autocast inside(test_device(), DType::bf16, {.weights = kept}); }
      EXPECT_EQ(parameter_bytes() - before, kept == amp::Shadows::none ? 0 : shadows);
    }
    EXPECT_EQ(parameter_bytes() - before, kept == amp::Shadows::step ? shadows : 0);
    loss.backward();
    EXPECT_EQ(parameter_bytes() - before, kept == amp::Shadows::step ? shadows : 0);
    if (!want.defined()) want = net.gradients();
    EXPECT_TRUE(same_bits(net.gradients(), want)) << int(kept);
    net.zero();
  }
}

TEST(AutocastShadows, AreMadeAnewWhenTheWeightChanges) {
  const Tensor w = leaf({4, 4}, 1), x = numbers({2, 4}, 2);
  auto product = [&] {
    Autocast scope(test_device(), DType::bf16);
    NoGrad no_graph;
    return linear(x, w);
  };
  auto by_hand = [&] {
    NoGrad no_graph;
    return linear(x.to(DType::bf16), w.to(DType::bf16));
  };
  EXPECT_TRUE(same_bits(product(), by_hand()));
  {
    NoGrad no_graph;
    w.mul_(3);
  }
  EXPECT_TRUE(same_bits(product(), by_hand())) << "after a change in place";
  w.set_data(numbers({4, 4}, 7));
  EXPECT_TRUE(same_bits(product(), by_hand())) << "after set_data";
}

TEST(AutocastShadows, AWeightChangedBeforeBackwardIsAnError) {
  const Tensor w = leaf({4, 4}, 1), x = leaf({2, 4}, 2);
  Tensor y;
  {
    Autocast scope(test_device(), DType::bf16);
    y = linear(x, w);
  }
  {
    NoGrad no_graph;
    w.mul_(3);
  }
  expect_error([&] { sum(y).backward(); },
               "linear: a tensor of shape (4, 4) that backward needs was changed in place");
}

TEST(AutocastShadows, MadeWithoutAGraphLoseNoGradient) {
  const Tensor w = leaf({4, 4}, 1), x = numbers({2, 4}, 2);
  Autocast scope(test_device(), DType::bf16);
  {
    InferenceMode evaluation;
    linear(x, w);
  }
  sum(linear(x, w)).backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(Autocast, HooksRunWithoutIt) {
  const Tensor x = leaf({2, 2}, 1);
  std::vector<std::optional<DType>> seen;
  const Tensor y = square(x);
  y.register_hook([&](const Tensor&) {
    seen.push_back(here());
    return Tensor();
  });
  Autocast scope(test_device(), DType::bf16);
  sum(y).backward();
  EXPECT_EQ(seen, std::vector<std::optional<DType>>{std::nullopt});
}

// A user's operation without a policy: it sees its arguments as they are, and its backward runs under the scopes of
// its forward.
struct Transparent : autograd::Function<Transparent> {
  static constexpr const char* name = "transparent";
  static inline std::vector<std::optional<DType>> seen;
  Tensor forward(const Tensor& x, const Tensor& w) {
    seen.push_back(here());
    save(x, w);
    return linear(x, w).to(DType::f32);
  }
  TensorList backward(const TensorList& dy) {
    seen.push_back(here());
    return {matmul(dy[0], saved(1)).to(DType::f32), matmul(transpose(dy[0], 0, 1), saved(0)).to(DType::f32)};
  }
};

TEST(Autocast, AnOperationWithoutAPolicyIsTransparent) {
  Transparent::seen.clear();
  const Tensor x = leaf({2, 4}, 1), w = leaf({4, 4}, 2);
  Tensor y;
  {
    Autocast scope(test_device(), DType::f16);
    y = Transparent::apply(x, w);
  }
  Autocast other(test_device(), DType::bf16);
  sum(y).backward();
  EXPECT_EQ(Transparent::seen, (std::vector<std::optional<DType>>{DType::f16, DType::f16}));
  EXPECT_EQ(here(), DType::bf16);
}

// Its backward multiplies, which autocast does in 16 bits.
struct TransparentProduct : autograd::Function<TransparentProduct> {
  static constexpr const char* name = "transparent_product";
  Tensor forward(const Tensor& x, const Tensor& w) {
    save(x, w);
    return matmul(x, w);
  }
  TensorList backward(const TensorList& dy) {
    return {matmul(dy[0], transpose(saved(1), 0, 1)), matmul(transpose(saved(0), 0, 1), dy[0])};
  }
};

TEST(Autocast, GradientsOfATransparentOperationHaveTheDtypesOfItsArguments) {
  for (const DType of_x : {DType::f32, DType::bf16}) {
    const Tensor x = numbers({2, 3}, 1).to(of_x).set_requires_grad(), w = leaf({3, 4}, 2);
    Autocast scope(test_device(), DType::bf16);
    sum(TransparentProduct::apply(x, w)).backward();
    EXPECT_EQ(x.grad().dtype(), of_x);
    EXPECT_EQ(w.grad().dtype(), DType::f32);
    const Tensor ones = full({2, 4}, 1.0, DType::bf16, test_device());
    const Tensor dw = matmul(transpose(x.detach(), 0, 1), ones);
    EXPECT_EQ(w.grad().to_vector<float>(), dw.to(DType::f32).to_vector<float>());
  }
}

// Its own Error says what may be missing; one about equal dtypes stays as it is.
struct WantsOneDtype : autograd::Function<WantsOneDtype> {
  static constexpr const char* name = "wants_one_dtype";
  Tensor forward(const Tensor& x, const Tensor&) { fail("wants_one_dtype: not like this: ", x.shape()); }
  TensorList backward(const TensorList&) { return {Tensor(), Tensor()}; }
};

TEST(Autocast, MixedDtypesWithoutAPolicyAreToldOf) {
  const Tensor x = leaf({2}, 1), half = leaf({2}, 2).detach().to(DType::bf16);
  auto message = [&](const Tensor& a, const Tensor& b) {
    try {
      WantsOneDtype::apply(a, b);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no Error");
  };
  const std::string own = "wants_one_dtype: not like this: (2,)";
  EXPECT_EQ(message(x, half), own);
  Autocast scope(test_device(), DType::bf16);
  EXPECT_EQ(message(x, x), own);
  expect_error([&] { WantsOneDtype::apply(x, half); },
               {own, "declares no `autocast`", "docs/mixed_precision.md"});
}

TEST(Autocast, DifferentiatesTwice) {
  const Tensor x = leaf({5, 8}, 1), w = leaf({6, 8}, 2), v = leaf({3, 6}, 3);
  auto penalty = [&](DType dtype) {
    const TensorList in = {x.detach().to(dtype).set_requires_grad(), w.detach().to(dtype).set_requires_grad(),
                           v.detach().to(dtype).set_requires_grad()};
    Tensor y = sum(square(linear(tanh(linear(in[0], in[1])), in[2])));
    Tensor dx = grad({y}, {in[0]}, {}, {.create_graph = true})[0];
    return grad({sum(square(dx))}, {in[1], in[2]});
  };
  const TensorList want = penalty(DType::f64);
  Autocast scope(test_device(), DType::bf16);
  const TensorList got = penalty(DType::f32);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), DType::f32);
    const Tensor wide = want[i];
    const double off = std::sqrt(sum(square(got[i].to(DType::f64) - wide)).item() / sum(square(wide)).item());
    EXPECT_LT(off, 0.05) << i;  // roundings of 2^-9, one on the other
    EXPECT_GT(off, 1e-5) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace reprise
