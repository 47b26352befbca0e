// Optimizers of parameters of 16 bits: the lower half beside them, random rounding, moments in bf16.
#include "reprise/autograd/ops.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/optim/half_parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

constexpr AdamWOptions kSplit{.lr = 1e-4, .master = Master::split};
constexpr AdamWOptions kStochastic{.lr = 1e-3, .master = Master::stochastic, .seed = 5};
constexpr AdamWOptions kSmall{.lr = 1e-3, .master = Master::stochastic, .moments = DType::bf16, .seed = 5};
constexpr AdamWOptions kSmallMoments{.lr = 1e-3, .moments = DType::bf16, .seed = 5};

TEST(StoredHalves, OfASplitParameterAreTheMasterCopyOfOtherwiseEqualTraining) {
  TensorList whole = half_parameters(DType::bf16), split = copies_of(whole);
  AdamW masters(whole, {.lr = 1e-4}), halves(split, kSplit);
  for (uint64_t step = 0; step < 20; ++step) {
    set_half_gradients(whole, step);
    set_half_gradients(split, step);
    masters.step();
    halves.step();
  }
  for (size_t p = 0; p < whole.size(); ++p) {
    const Tensor remainder = state_of(halves, std::to_string(p) + ".remainder");
    ASSERT_TRUE(remainder.defined());
    EXPECT_EQ(joined_bits(split[p], remainder), bits_of(state_of(masters, std::to_string(p) + ".master")))
        << p;
    EXPECT_FALSE(state_of(halves, std::to_string(p) + ".master").defined());
  }
}

// Moments are there from f32 training; the lower half is made when the parameter gets 16 bits.
TEST(StoredHalves, BeginWhereParametersBecome16Bits) {
  TensorList parameters = half_parameters(DType::bf16);
  for (const Tensor& x : parameters) x.set_data(x.detach().to(DType::f32));
  AdamW optimizer(parameters, kSplit);
  set_half_gradients(parameters, 0);
  optimizer.step();
  for (const Tensor& x : parameters) x.set_grad({}), x.set_data(x.detach().to(DType::bf16));
  set_half_gradients(parameters, 1);
  optimizer.step();
  for (size_t p = 0; p < parameters.size(); ++p)
    EXPECT_TRUE(state_of(optimizer, std::to_string(p) + ".remainder").defined()) << p;
}

TEST(StoredHalves, ResumeToTheBit) {
  for (const AdamWOptions& options : {kSplit, kStochastic, kSmall, kSmallMoments}) {
    TensorList first = half_parameters(DType::bf16);
    AdamW stopped(first, options);
    for (uint64_t step = 0; step < 3; ++step) {
      set_half_gradients(first, step);
      stopped.step();
    }
    TensorList second = copies_of(first);
    AdamWOptions other = options;
    other.seed = 77;  // the state brings its own
    AdamW resumed(second, other);
    resumed.load_state_dict(copy_of(stopped.state_dict()));
    for (uint64_t step = 3; step < 6; ++step) {
      set_half_gradients(first, step);
      set_half_gradients(second, step);
      stopped.step();
      resumed.step();
    }
    expect_same_state(resumed, stopped);
    EXPECT_TRUE(same_bits(second, first));
  }
}

// What is drawn counts updates, not tries.
TEST(StoredHalves, AreNotChangedByAnUpdateThatIsNotMade) {
  const Tensor one = Tensor::from<double>({1}, {}, test_device());
  const Tensor found = Tensor::from<int32_t>({3}, {}, test_device()),
               fine = Tensor::from<int32_t>({0}, {}, test_device());
  for (const AdamWOptions& options : {kSplit, kStochastic, kSmall}) {
    TensorList skipping = half_parameters(DType::bf16), plain = copies_of(skipping);
    AdamW a(skipping, options), b(plain, options);
    for (uint64_t step = 0; step < 4; ++step) {
      set_half_gradients(skipping, step + 100);
      if (step % 2 == 1) a.step_if_finite(one, found);
      set_half_gradients(skipping, step);
      a.step_if_finite(one, fine);
      set_half_gradients(plain, step);
      b.step();
    }
    expect_same_state(a, b);
    EXPECT_TRUE(same_bits(skipping, plain));
  }
}

TEST(StoredHalves, RoundDifferentParametersByDifferentDraws) {
  TensorList twins;
  for (int i = 0; i < 2; ++i) twins.push_back(ones({257}, DType::bf16, test_device()).set_requires_grad());
  AdamW optimizer(twins, kStochastic);
  for (const Tensor& x : twins) x.set_grad(ones({257}, DType::bf16, test_device()));
  optimizer.step();
  EXPECT_FALSE(same_bits(twins[0].detach(), twins[1].detach()));
}

TEST(StoredHalves, TakeGradientsInF32) {
  for (const AdamWOptions& options : {kSplit, kStochastic, kSmall, AdamWOptions{.lr = 1e-3}}) {
    TensorList wide = half_parameters(DType::bf16), narrow = copies_of(wide);
    for (const Tensor& x : wide) x.set_grad_dtype(DType::f32);
    AdamW a(wide, options), b(narrow, options);
    for (uint64_t step = 0; step < 3; ++step) {
      set_half_gradients(narrow, step);  // numbers that bf16 holds: the same update
      for (size_t p = 0; p < wide.size(); ++p) wide[p].set_grad(narrow[p].grad().to(DType::f32));
      a.step();
      b.step();
    }
    expect_same_state(a, b);
  }
}

TEST(StoredHalves, LeaveF32ParametersAsTheyAre) {
  TensorList mixed = half_parameters(DType::bf16), same;
  mixed[1] = mixed[1].detach().to(DType::f32).set_requires_grad();
  same = copies_of(mixed);
  AdamW split(mixed, kSplit), plain({same[1]}, {.lr = 1e-4});
  set_half_gradients(mixed, 0);
  same[1].set_grad(mixed[1].grad());
  split.step();
  plain.step();
  EXPECT_TRUE(same_bits(mixed[1].detach(), same[1].detach()));
  EXPECT_FALSE(state_of(split, "1.remainder").defined());
  EXPECT_TRUE(state_of(split, "2.remainder").defined());
}

TEST(StoredHalves, RefuseWhatTheyAreNotFor) {
  const TensorList f16 = half_parameters(DType::f16), bf16 = half_parameters(DType::bf16);
  expect_error([&] { AdamW(f16, kSplit); }, {"parameter 0 is f16"});
  expect_error([&] { AdamW(f16, kStochastic); }, {"parameter 0 is f16"});
  expect_error([&] { AdamW(bf16, {.moments = DType::f16}); }, {"moments must be f32, bf16 or u8, got f16"});
  for (const auto& [options, lost] :
       {std::pair(kSplit, "1.remainder"), {kSmall, "seed"}, {kSmall, "2.second_moment"}}) {
    AdamW optimizer(bf16, options);
    set_half_gradients(bf16, 0);
    optimizer.step();
    nn::NamedTensors state = copy_of(optimizer.state_dict());
    std::erase_if(state, [&](const auto& entry) { return entry.first == lost; });
    expect_error([&] { optimizer.load_state_dict(state); },
                 {std::string(lost).substr(lost[1] == '.' ? 2 : 0)});
  }
}

}  // namespace
}  // namespace reprise::optim
