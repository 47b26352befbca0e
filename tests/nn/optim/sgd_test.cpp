// SGD against the textbook in f64, as PyTorch's documentation writes it.
#include "reprise/nn/optim/sgd.h"

#include <cmath>

#include "reprise/tests/nn/optim/parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

// A few f32 roundings a step of numbers near 1.
constexpr double kTolerance = 2e-6;

struct Reference {
  Doubles p, v;
  bool started = false;
  explicit Reference(const Tensor& parameter) : p(parameter.detach().to_vector<double>()), v(p.size()) {}
  void step(const Doubles& gradient, double lr, double decay, const SgdOptions& o, double scale) {
    for (size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i] * scale + decay * p[i];
      v[i] = started ? o.momentum * v[i] + g : g;
      double direction = g;
      if (o.momentum > 0) direction = o.nesterov ? g + o.momentum * v[i] : v[i];
      p[i] -= lr * direction;
    }
    started = true;
  }
};

TEST(Sgd, FollowsTheTextbookWithGroupsScalesAndLateParameters) {
  for (SgdOptions options :
       {SgdOptions{}, SgdOptions{.momentum = 0.9}, SgdOptions{.momentum = 0.9, .nesterov = true}}) {
    TensorList parameters = odd_parameters();
    std::vector<Reference> want(parameters.begin(), parameters.end());
    Sgd optimizer(std::vector<ParameterGroup>{{{parameters[0], parameters[1]}, 0.05, 0.3},
                                              {{parameters[2], parameters[3]}, 0.02, 0}},
                  options);
    auto has = [](size_t p, uint64_t step) { return p == 0 || (p + step) % 3 != 0; };
    for (uint64_t step = 0; step < 8; ++step) {
      double scale = step % 2 ? 0.25 : 1;
      set_gradients(parameters, step, has);
      optimizer.step(scale);
      for (size_t p = 0; p < want.size(); ++p) {
        if (has(p, step))
          want[p].step(numbers(want[p].p.size(), 100 + p, step), p < 2 ? 0.05 : 0.02, p < 2 ? 0.3 : 0,
                       options, scale);
        EXPECT_TRUE(is_close(parameters[p].detach().to_vector<double>(), want[p].p, kTolerance))
            << "parameter " << p << ", step " << step << ", momentum " << options.momentum;
      }
    }
    EXPECT_EQ(optimizer.steps(), 8);
  }
}

TEST(Sgd, TakesItsOptionsForTheOnlyGroup) {
  Tensor x = parameter_of({5}, 1);
  Reference want(x);
  Sgd optimizer(TensorList{x}, {.lr = 0.1, .weight_decay = 0.5});
  set_gradients({x}, 0);
  optimizer.step();
  want.step(numbers(5, 100, 0), 0.1, 0.5, {}, 1);
  EXPECT_TRUE(is_close(x.detach().to_vector<double>(), want.p, kTolerance));
}

TEST(Sgd, WithoutMomentumKeepsNoState) {
  TensorList parameters = odd_parameters();
  Sgd optimizer(parameters);
  set_gradients(parameters, 0);
  optimizer.step();
  nn::NamedTensors state = optimizer.state_dict();
  ASSERT_EQ(state.size(), 1u);
  EXPECT_EQ(state[0].first, "steps");
}

TEST(Sgd, ResumesFromItsStateToTheBit) {
  for (bool nesterov : {false, true})
    expect_exact_resume([=](const TensorList& parameters) {
      return std::make_unique<Sgd>(parameters, SgdOptions{.lr = 0.05, .momentum = 0.9, .nesterov = nesterov});
    });
}

TEST(Sgd, RefusesNesterovWithoutMomentum) {
  TensorList parameters = odd_parameters();
  expect_error([&] { Sgd optimizer(parameters, {.nesterov = true}); },
               {"Sgd", "nesterov", "momentum", "got 0"});
}

}  // namespace
}  // namespace reprise::optim
