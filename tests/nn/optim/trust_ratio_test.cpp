// Lamb and Lars against the formulas of their papers in f64, as timm's documentation and code have them.
#include <cmath>
#include <numeric>

#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/lars.h"
#include "reprise/tests/nn/optim/parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

// A few f32 roundings a step of numbers near 1, and of norms of up to 129 of them.
constexpr double kTolerance = 5e-6;

double norm(const Doubles& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

struct LambReference {
  Doubles p, m, v;
  explicit LambReference(const Tensor& parameter)
      : p(parameter.detach().to_vector<double>()), m(p.size()), v(p.size()) {}
  void step(const Doubles& gradient, double lr, double decay, int t, double scale) {
    Doubles u(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] * scale;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      u[i] =
          m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.99, t))) + 1e-6) + decay * p[i];
    }
    const double ratio = decay > 0 && norm(p) > 0 && norm(u) > 0 ? norm(p) / norm(u) : 1;
    for (size_t i = 0; i < p.size(); ++i) p[i] -= lr * ratio * u[i];
  }
};

struct LarsReference {
  Doubles p, b;
  explicit LarsReference(const Tensor& parameter) : p(parameter.detach().to_vector<double>()), b(p.size()) {}
  void step(const Doubles& gradient, double lr, double decay, int, double scale) {
    Doubles g = gradient;
    for (double& x : g) x *= scale;
    double ratio = 1;
    if (decay > 0 && norm(p) > 0 && norm(g) > 0) ratio = 0.02 * norm(p) / (norm(g) + decay * norm(p) + 1e-8);
    for (size_t i = 0; i < p.size(); ++i) {
      b[i] = 0.8 * b[i] + ratio * (g[i] + decay * p[i]);
      p[i] -= lr * b[i];
    }
  }
};

// The first group decays, the second does not; one parameter is 0, another has a gradient of 0, and that of the second group has
// none in the first two steps: its own updates count.
template <class Reference>
void expect_follows(const std::function<std::unique_ptr<Optimizer>(std::vector<ParameterGroup>)>& make) {
  TensorList parameters = odd_parameters();
  parameters[1].detach().zero_();
  std::vector<Reference> want(parameters.begin(), parameters.end());
  auto optimizer =
      make({{{parameters[0], parameters[1], parameters[3]}, 0.05, 0.3}, {{parameters[2]}, 0.02, 0}});
  for (uint64_t step = 0; step < 6; ++step) {
    const double scale = step % 2 ? 0.25 : 1;
    set_gradients(parameters, step);
    if (step == 0) parameters[3].set_grad(zeros(parameters[3].shape()));
    if (step < 2) parameters[2].set_grad({});
    for (size_t p = 0; p < want.size(); ++p)
      if (parameters[p].grad().defined())
        want[p].step(parameters[p].grad().to_vector<double>(), p == 2 ? 0.02 : 0.05, p == 2 ? 0 : 0.3,
                     int(step) + (p == 2 ? -1 : 1), scale);
    optimizer->step(scale);
    for (size_t p = 0; p < want.size(); ++p)
      EXPECT_TRUE(is_close(parameters[p].detach().to_vector<double>(), want[p].p, kTolerance))
          << "parameter " << p << ", step " << step;
  }
  EXPECT_EQ(optimizer->steps(), 6);
}

const LambOptions kLamb{.beta2 = 0.99};
const LarsOptions kLars{.momentum = 0.8, .trust = 0.02};

TEST(Lamb, FollowsItsFormula) {
  expect_follows<LambReference>(
      [](std::vector<ParameterGroup> groups) { return std::make_unique<Lamb>(std::move(groups), kLamb); });
}

TEST(Lars, FollowsItsFormula) {
  expect_follows<LarsReference>(
      [](std::vector<ParameterGroup> groups) { return std::make_unique<Lars>(std::move(groups), kLars); });
}

TEST(Lamb, ResumesFromItsStateToTheBit) {
  expect_exact_resume([](const TensorList& p) { return std::make_unique<Lamb>(p, LambOptions{.lr = 0.05}); });
}

TEST(Lars, ResumesFromItsStateToTheBit) {
  expect_exact_resume([](const TensorList& p) {
    return std::make_unique<Lars>(p, LarsOptions{.lr = 0.05, .weight_decay = 0.1});
  });
}

TEST(Lamb, RefusesWhatItCannotHeed) {
  Tensor x = parameter_of({3}, 1);
  expect_error([&] { Lamb optimizer({x}, {.beta1 = 1}); }, {"Lamb", "betas"});
  expect_error([&] { Lamb optimizer({x}, {.eps = -1}); }, {"Lamb", "eps"});
  expect_error([&] { Lamb optimizer(std::vector<ParameterGroup>{{{x}}}, {.lr = 1}); }, {"Lamb", "lr 1"});
  expect_error([&] { Lars optimizer({x}, {.trust = double(NAN)}); }, {"Lars", "trust nan"});
  expect_error([&] { Lars optimizer(std::vector<ParameterGroup>{{{x}}}, {.weight_decay = 0.1}); },
               {"Lars", "weight_decay 0.1"});
  Tensor half = x.detach().to(DType::bf16).set_requires_grad();
  half.set_grad(ones({3}, DType::bf16));
  expect_error([&] { Lamb(TensorList{half}).step(); }, {"Lamb", "parameter 0", "bf16"});
  expect_error([&] { Lars(TensorList{half}).step(); }, {"Lars", "parameter 0", "bf16"});
}

}  // namespace
}  // namespace reprise::optim
