// Several optimizers as one do what each does alone, to the bit, and save and load all of it.
#include "reprise/nn/optim/optimizer_list.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/nn/optim/parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

struct Both {
  TensorList parameters = odd_parameters();
  AdamW adamw{TensorList{parameters[0], parameters[2]}, {.lr = 0.1}};
  Sgd sgd{{{.parameters = {parameters[1], parameters[3]}, .lr = 0.1, .lr_scale = 4}}, {.momentum = 0.9}};
  OptimizerList list{{adamw, sgd}};

  void step(uint64_t step) {
    set_gradients(parameters, step);
    list.step(0.5);
  }
};

TensorList values_of(const TensorList& parameters) {
  TensorList values;
  for (const Tensor& parameter : parameters) values.push_back(parameter.detach().clone());
  return values;
}

TEST(OptimizerList, StepsEachAsItWouldAlone) {
  Both alone, together;
  for (uint64_t step = 0; step < 3; ++step) {
    set_gradients(alone.parameters, step);
    double lr = 0.1 / double(step + 1);
    alone.adamw.set_lr(lr);
    alone.sgd.set_lr(lr);
    alone.adamw.step(0.5);
    alone.sgd.step(0.5);
    together.list.set_lr(lr);
    together.step(step);
  }
  EXPECT_TRUE(same_bits(together.parameters, alone.parameters));
  EXPECT_EQ(together.list.steps(), 3);
  together.list.zero_grad();
  for (const Tensor& parameter : together.parameters) EXPECT_FALSE(parameter.grad().defined());
}

TEST(OptimizerList, GoesOnToTheBitFromItsSavedState) {
  Both whole, resumed;
  for (uint64_t step = 0; step < 2; ++step) whole.step(step);
  nn::NamedTensors state = copy_of(whole.list.state_dict());
  EXPECT_EQ(state.front().first, "0.0.first_moment");
  for (size_t i = 0; i < whole.parameters.size(); ++i) {
    NoGrad guard;
    resumed.parameters[i].copy_(whole.parameters[i]);
  }
  resumed.list.load_state_dict(state);
  whole.step(2);
  resumed.step(2);
  EXPECT_TRUE(same_bits(resumed.parameters, whole.parameters));
  EXPECT_EQ(resumed.list.steps(), 3);
}

TEST(OptimizerList, RefusesAStateThatDoesNotFitAndStaysAsItWas) {
  Both whole, broken;
  whole.step(0);
  broken.step(0);
  nn::NamedTensors later = [] {
    Both other;
    for (uint64_t step = 0; step < 2; ++step) other.step(step);
    return copy_of(other.list.state_dict());
  }();
  std::erase_if(later, [](const auto& entry) { return entry.first == "1.steps"; });
  expect_error([&] { broken.list.load_state_dict(later); }, {"steps"});
  expect_error([&] { broken.list.load_state_dict({{"2.steps", ones({1})}}); }, {"2.steps", "none of the 2"});
  expect_error([&] { broken.list.load_state_dict({{"steps", ones({1})}}); }, {"state steps"});
  expect_error([&] { broken.list.load_state_dict({{"0", ones({1})}}); }, {"state 0"});
  whole.step(1);
  broken.step(1);
  EXPECT_TRUE(same_bits(broken.parameters, whole.parameters));
}

TEST(OptimizerList, RefusesWhatItCannotStepAsOne) {
  Tensor x = parameter_of({3}, 1), y = parameter_of({2}, 2);
  AdamW adamw({x}, {.lr = 0.1});
  Sgd same({x}, {.lr = 0.1}), other({y}, {.lr = 0.2});
  expect_error([] { OptimizerList({}); }, {"OptimizerList", "no optimizers"});
  expect_error([&] { OptimizerList({adamw, same}); }, {"optimizer 1", "(3,)"});
  expect_error([&] { OptimizerList({adamw, adamw}); }, {"optimizer 1", "(3,)"});
  OptimizerList list({adamw, other});
  expect_error([&] { list.set_lr(0.3); }, {"set_lr", "0.1", "0.2", "lr_scale"});
  other.groups()[0].lr = double(NAN);
  for (Tensor& parameter : TensorList{x, y}) parameter.set_grad(ones(parameter.shape()));
  TensorList before = values_of({x, y});
  expect_error([&] { list.step(); }, {"group 1", "nan"});
  EXPECT_TRUE(same_bits({x, y}, before));
}

}  // namespace
}  // namespace reprise::optim
