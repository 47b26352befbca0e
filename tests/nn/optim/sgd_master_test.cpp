// Sgd on parameters of half types: they are updated in master copies of f32, and are these rounded; or in two halves of such
// copies; or they are rounded at random.
#include "reprise/nn/optim/sgd.h"

#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/nn/optim/half_parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

TEST(SgdMaster, IsTheTextbooksUpdateAndTheParameterIsItRounded) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (double momentum : {0.0, 0.9}) {
      TensorList parameters = half_parameters(dtype);
      std::vector<Doubles> want, velocity;
      for (const Tensor& x : parameters) want.push_back(x.detach().to_vector<double>());
      velocity.resize(want.size());
      Sgd optimizer(parameters, {.lr = 1e-4, .momentum = momentum, .weight_decay = 0.1});
      for (uint64_t step = 0; step < 9; ++step) {
        set_half_gradients(parameters, step);
        for (size_t p = 0; p < want.size(); ++p) {
          const Doubles g = parameters[p].grad().to_vector<double>();
          velocity[p].resize(g.size());
          for (size_t i = 0; i < g.size(); ++i) {
            velocity[p][i] = momentum * velocity[p][i] + g[i] + 0.1 * want[p][i];
            want[p][i] -= 1e-4 * velocity[p][i];
          }
        }
        optimizer.step();
      }
      for (size_t p = 0; p < want.size(); ++p) {
        const Tensor master = state_of(optimizer, std::to_string(p) + ".master");
        ASSERT_TRUE(master.defined());
        EXPECT_TRUE(is_close(master.to_vector<double>(), want[p], 1e-6)) << "a few f32 roundings a step";
        EXPECT_TRUE(same_bits(parameters[p].detach(), master.to(dtype)));
      }
      TensorList copies = copies_of(parameters);
      Sgd resumed(copies, {.lr = 1e-4, .momentum = momentum, .weight_decay = 0.1});
      resumed.load_state_dict(copy_of(optimizer.state_dict()));
      for (const TensorList& list : {parameters, copies}) set_half_gradients(list, 9);
      optimizer.step();
      resumed.step();
      expect_same_state(resumed, optimizer);
    }
}

SgdOptions stored(Master master, double momentum = 0.9) {
  return {.lr = 1e-3, .momentum = momentum, .weight_decay = 0.1, .master = master, .seed = 5};
}

TEST(SgdMaster, InTwoHalvesIsTheMasterCopyOfOtherwiseEqualTraining) {
  for (double momentum : {0.0, 0.9}) {
    TensorList whole = half_parameters(DType::bf16), split = copies_of(whole);
    Sgd masters(whole, stored(Master::f32, momentum)), halves(split, stored(Master::split, momentum));
    for (uint64_t step = 0; step < 20; ++step) {
      set_half_gradients(whole, step);
      set_half_gradients(split, step);
      masters.step();
      halves.step();
    }
    for (size_t p = 0; p < whole.size(); ++p) {
      const std::string name = std::to_string(p);
      ASSERT_TRUE(state_of(halves, name + ".remainder").defined());
      EXPECT_EQ(joined_bits(split[p], state_of(halves, name + ".remainder")),
                bits_of(state_of(masters, name + ".master")))
          << p;
      EXPECT_FALSE(state_of(halves, name + ".master").defined());
    }
  }
}

// Each update in f64, from where the one before went: to one of the two bf16 around it, and on average to itself.
TEST(SgdMaster, RoundsAtRandomBetweenTheNeighboursAndIsRightOnAverage) {
  TensorList parameters{ones({4096}, DType::bf16, test_device()).set_requires_grad()};
  Sgd optimizer(parameters, {.lr = 0x1p-10, .master = Master::stochastic, .seed = 5});
  const Tensor gradient = ones({4096}, DType::bf16, test_device());
  for (int step = 0; step < 50; ++step) {
    const Doubles before = parameters[0].detach().to_vector<double>();
    parameters[0].set_grad(gradient);
    optimizer.step();
    const Doubles after = parameters[0].detach().to_vector<double>();
    for (size_t i = 0; i < after.size(); ++i) {
      const double want = before[i] - 0x1p-10, last_bit = want > 1 ? 0x1p-7 : 0x1p-8;
      ASSERT_LT(std::abs(after[i] - want), last_bit) << i << " in step " << step;
    }
  }
  double sum = 0;
  for (const double x : parameters[0].detach().to_vector<double>()) sum += x;
  // A walk of 50 steps with the spread of half a last bit (2^-9) each, over 4,096 elements: 0.0002; five times that.
  EXPECT_NEAR(sum / 4096, 1 - 50 * 0x1p-10, 0.001);
}

TEST(SgdMaster, ResumesToTheBit) {
  for (Master master : {Master::split, Master::stochastic})
    for (double momentum : {0.0, 0.9}) {
      TensorList first = half_parameters(DType::bf16);
      Sgd stopped(first, stored(master, momentum));
      for (uint64_t step = 0; step < 3; ++step) {
        set_half_gradients(first, step);
        stopped.step();
      }
      TensorList second = copies_of(first);
      SgdOptions other = stored(master, momentum);
      other.seed = 77;  // the state brings its own
      Sgd resumed(second, other);
      resumed.load_state_dict(copy_of(stopped.state_dict()));
      for (uint64_t step = 3; step < 6; ++step) {
        for (const TensorList& list : {first, second}) set_half_gradients(list, step);
        stopped.step();
        resumed.step();
      }
      expect_same_state(resumed, stopped);
      for (size_t p = 0; p < first.size(); ++p)
        EXPECT_TRUE(same_bits(second[p].detach(), first[p].detach())) << p;
    }
}

// What is drawn counts updates, not tries, wherever they are counted.
TEST(SgdMaster, IsNotChangedByAnUpdateThatIsNotMade) {
  const Tensor one = Tensor::from<double>({1}, {}, test_device());
  const Tensor found = Tensor::from<int32_t>({3}, {}, test_device()),
               fine = Tensor::from<int32_t>({0}, {}, test_device());
  for (Master master : {Master::split, Master::stochastic}) {
    TensorList skipping = half_parameters(DType::bf16), plain = copies_of(skipping);
    Sgd a(skipping, stored(master)), b(plain, stored(master));
    for (uint64_t step = 0; step < 4; ++step) {
      set_half_gradients(skipping, step + 100);
      if (step % 2 == 1) a.step_if_finite(one, found);
      set_half_gradients(skipping, step);
      step == 2 ? a.step() : a.step_if_finite(one, fine);
      set_half_gradients(plain, step);
      b.step();
    }
    expect_same_state(a, b);
    for (size_t p = 0; p < plain.size(); ++p)
      EXPECT_TRUE(same_bits(skipping[p].detach(), plain[p].detach())) << p;
  }
}

TEST(SgdMaster, RoundsEachParameterAndUpdateByDrawsOfItsOwn) {
  TensorList twins;
  for (int i = 0; i < 2; ++i) twins.push_back(ones({257}, DType::bf16, test_device()).set_requires_grad());
  Sgd optimizer(twins, {.lr = 0x1p-10, .master = Master::stochastic});
  std::vector<Tensor> results;
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& x : twins) {
      x.detach().fill_(1);
      x.set_grad(ones({257}, DType::bf16, test_device()));
    }
    optimizer.step();
    for (const Tensor& x : twins) results.push_back(x.detach().clone());
  }
  for (size_t i = 0; i < results.size(); ++i)
    for (size_t k = 0; k < i; ++k) EXPECT_FALSE(same_bits(results[i], results[k])) << i << ' ' << k;
}

TEST(SgdMaster, TakesGradientsInF32AndLeavesF32ParametersAsTheyAre) {
  for (Master master : {Master::split, Master::stochastic}) {
    TensorList wide = half_parameters(DType::bf16), narrow = copies_of(wide);
    for (TensorList* list : {&wide, &narrow})
      (*list)[1] = (*list)[1].detach().to(DType::f32).set_requires_grad();
    TensorList alone{narrow[1].detach().clone().set_requires_grad()};
    for (const Tensor& x : wide) x.set_grad_dtype(DType::f32);
    Sgd a(wide, stored(master)), b(narrow, stored(master)), c(alone, stored(Master::f32));
    for (uint64_t step = 0; step < 3; ++step) {
      set_half_gradients(narrow, step);  // numbers that bf16 holds: the same update
      for (size_t p = 0; p < wide.size(); ++p) wide[p].set_grad(narrow[p].grad().to(DType::f32));
      alone[0].set_grad(narrow[1].grad());
      a.step();
      b.step();
      c.step();
    }
    expect_same_state(a, b);
    EXPECT_TRUE(same_bits(narrow[1].detach(), alone[0].detach()));
    EXPECT_FALSE(state_of(b, "1.remainder").defined());
  }
}

TEST(SgdMaster, RefusesWhatItIsNotFor) {
  const TensorList f16 = half_parameters(DType::f16), bf16 = half_parameters(DType::bf16);
  for (Master master : {Master::split, Master::stochastic})
    expect_error([&] { Sgd(f16, stored(master)); }, {"Sgd: parameter 0 is f16"});
  for (const auto& [master, lost] : {std::pair(Master::split, "1.remainder"), {Master::stochastic, "seed"}}) {
    Sgd optimizer(bf16, stored(master));
    set_half_gradients(bf16, 0);
    optimizer.step();
    nn::NamedTensors state = copy_of(optimizer.state_dict());
    std::erase_if(state, [&, &name = lost](const auto& entry) { return entry.first == name; });
    expect_error([&] { optimizer.load_state_dict(state); },
                 {std::string(lost).substr(lost[1] == '.' ? 2 : 0)});
  }
}

TEST(SgdMaster, GivesAveragesTheDigitsThatItKeeps) {
  for (Master master : {Master::f32, Master::split, Master::stochastic}) {
    TensorList parameters = half_parameters(DType::bf16);
    Sgd optimizer(parameters, stored(master));
    optimizer.allocate_state();
    for (const WideParameter& wide : optimizer.wide_parameters()) {
      EXPECT_EQ(wide.value.dtype(), master == Master::f32 ? DType::f32 : DType::bf16);
      EXPECT_EQ(wide.remainder.defined(), master == Master::split);
    }
  }
}

}  // namespace
}  // namespace reprise::optim
