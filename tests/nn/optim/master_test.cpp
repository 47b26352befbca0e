// AdamW on parameters of half types: they are updated in master copies of f32, and are these rounded.
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/tests/nn/optim/half_parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

constexpr DType half_types[] = {DType::bf16, DType::f16};

// The paper's update in f64 from a parameter's first value.
struct Reference {
  Doubles p, m, v;
  explicit Reference(const Tensor& x) : p(x.detach().to_vector<double>()), m(p.size()), v(p.size()) {}
  void step(const Doubles& g, int t, const AdamWOptions& o) {
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      p[i] -= o.lr * (o.weight_decay * p[i] + m[i] / (1 - std::pow(o.beta1, t)) /
                                                  (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.eps));
    }
  }
};

TEST(AdamWMaster, IsThePapersUpdateAndTheParameterIsItRounded) {
  // Steps of 1e-4 are lost on numbers near 1 in bf16, whose half last bit is 2e-3.
  const AdamWOptions options{.lr = 1e-4, .weight_decay = 0.1};
  for (DType dtype : half_types) {
    TensorList parameters = half_parameters(dtype);
    std::vector<Reference> want(parameters.begin(), parameters.end());
    AdamW optimizer(parameters, options);
    for (int step = 1; step <= 9; ++step) {
      set_half_gradients(parameters, uint64_t(step));
      for (size_t p = 0; p < parameters.size(); ++p)
        want[p].step(parameters[p].grad().to_vector<double>(), step, options);
      optimizer.step();
    }
    for (size_t p = 0; p < parameters.size(); ++p) {
      Tensor master = state_of(optimizer, std::to_string(p) + ".master");
      ASSERT_TRUE(master.defined());
      EXPECT_EQ(master.dtype(), DType::f32);
      EXPECT_EQ(state_of(optimizer, std::to_string(p) + ".second_moment").dtype(), DType::f32);
      EXPECT_TRUE(is_close(master.to_vector<double>(), want[p].p, 1e-6)) << "a few f32 roundings a step";
      EXPECT_TRUE(same_bits(parameters[p].detach(), master.to(dtype))) << dtype << " parameter " << p;
    }
  }
}

TEST(AdamWMaster, ResumesToTheBit) {
  for (DType dtype : half_types) {
    TensorList first = half_parameters(dtype), second;
    AdamW stopped(first, {.lr = 1e-3});
    for (uint64_t step = 0; step < 3; ++step) {
      set_half_gradients(first, step);
      stopped.step();
    }
    nn::NamedTensors state = copy_of(stopped.state_dict());
    for (const Tensor& p : first) second.push_back(p.detach().clone().set_requires_grad());
    AdamW resumed(second, {.lr = 1e-3});
    resumed.load_state_dict(state);
    for (uint64_t step = 3; step < 6; ++step) {
      set_half_gradients(first, step);
      set_half_gradients(second, step);
      stopped.step();
      resumed.step();
    }
    nn::NamedTensors want = stopped.state_dict(), got = resumed.state_dict();
    EXPECT_TRUE(same_bits(got, want));
  }
}

// What was kept of a parameter of 16 bits is no state of the one in f32 that it has become.
TEST(AdamWMaster, IsNotInTheStateOfAModelThatIsInF32Again) {
  for (const Master master : {Master::f32, Master::split}) {
    const AdamWOptions options{.lr = 1e-3, .master = master};
    nn::Linear layer(4, 3);
    AdamW optimizer(layer.parameters(), options);
    const auto step = [&] {
      sum(layer(ones({2, 4}, layer.weight.dtype()))).backward();
      optimizer.step();
      optimizer.zero_grad();
    };
    nn::to_precision(layer, DType::bf16);
    step();
    nn::to_precision(layer, DType::f32);
    for (int steps : {0, 1}) {
      if (steps) step();
      AdamW resumed(layer.parameters(), options);
      EXPECT_NO_THROW(resumed.load_state_dict(copy_of(optimizer.state_dict())));
      expect_same_state(resumed, optimizer);
    }
  }
}

TEST(AdamWMaster, RefusesAStateWithoutIt) {
  TensorList parameters = half_parameters(DType::bf16);
  AdamW optimizer(parameters);
  set_half_gradients(parameters, 0);
  optimizer.step();
  nn::NamedTensors state = copy_of(optimizer.state_dict());
  std::erase_if(state, [](const auto& entry) { return entry.first == "1.master"; });
  expect_error([&] { optimizer.load_state_dict(state); }, {"parameter 1", "first_moment", "master"});
}

TEST(AdamWMaster, TakesWhatOthersWroteAndKeepsTheRestToTheBit) {
  TensorList parameters = half_parameters(DType::bf16);
  Tensor x = parameters[3];
  AdamW optimizer(parameters, {.lr = 0, .weight_decay = 0});  // steps change nothing
  set_half_gradients(parameters, 0);
  optimizer.groups()[0].lr = 1e-4;
  optimizer.step();
  optimizer.groups()[0].lr = 0;
  Tensor before = state_of(optimizer, "3.master").clone();
  Tensor held = x.detach().clone();
  x.detach().fill_(3);  // as a swap of averages does
  x.detach().copy_(held);
  optimizer.step();
  EXPECT_TRUE(same_bits(state_of(optimizer, "3.master"), before));
  x.detach().slice(0, 5, 7).fill_(0.5);
  optimizer.step();
  Tensor after = state_of(optimizer, "3.master");
  EXPECT_EQ(after.slice(0, 5, 7).to_vector<float>(), (std::vector<float>{0.5f, 0.5f}));
  EXPECT_TRUE(same_bits(after.slice(0, 7, 129), before.slice(0, 7, 129)));
}

}  // namespace
}  // namespace reprise::optim
