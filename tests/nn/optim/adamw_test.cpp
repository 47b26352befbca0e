// AdamW against the paper's update in f64 (Loshchilov and Hutter 2019, algorithm 2).
#include "reprise/nn/optim/adamw.h"

#include <cmath>

#include "reprise/tests/nn/optim/parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

// A few f32 roundings a step of numbers near 1.
constexpr double kTolerance = 2e-6;

struct Reference {
  Doubles p, m, v;
  int t = 0;
  explicit Reference(const Tensor& parameter)
      : p(parameter.detach().to_vector<double>()), m(p.size()), v(p.size()) {}
  void step(const Doubles& gradient, double lr, double decay, const AdamWOptions& o, double scale) {
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i] * scale;
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      double m_hat = m[i] / (1 - std::pow(o.beta1, t)), v_hat = v[i] / (1 - std::pow(o.beta2, t));
      p[i] = p[i] - lr * decay * p[i] - lr * m_hat / (std::sqrt(v_hat) + o.eps);
    }
  }
};

TEST(AdamW, FollowsThePaperWithGroupsScalesAndLateParameters) {
  for (AdamWOptions options : {AdamWOptions{}, AdamWOptions{.beta1 = 0.7, .beta2 = 0.95, .eps = 0.1}}) {
    TensorList parameters = odd_parameters();
    std::vector<Reference> want(parameters.begin(), parameters.end());
    AdamW optimizer(std::vector<ParameterGroup>{{{parameters[0], parameters[1]}, 0.05, 0.3},
                                                {{parameters[2], parameters[3]}, 0.02, 0}},
                    options);
    auto has = [](size_t p, uint64_t step) { return p == 0 || (p + step) % 3 != 0; };
    for (uint64_t step = 0; step < 8; ++step) {
      double scale = step % 2 ? 0.25 : 1;
      double lr = 0.01 * double(step + 1);
      optimizer.groups()[0].lr = lr;
      set_gradients(parameters, step, has);
      optimizer.step(scale);
      for (size_t p = 0; p < want.size(); ++p)
        if (has(p, step))
          want[p].step(numbers(want[p].p.size(), 100 + p, step), p < 2 ? lr : 0.02, p < 2 ? 0.3 : 0, options,
                       scale);
      for (size_t p = 0; p < want.size(); ++p)
        EXPECT_TRUE(is_close(parameters[p].detach().to_vector<double>(), want[p].p, kTolerance))
            << "parameter " << p << ", step " << step;
    }
    EXPECT_EQ(optimizer.steps(), 8);
  }
}

TEST(AdamW, TakesItsOptionsForTheOnlyGroup) {
  Tensor x = parameter_of({5}, 1);
  Reference want(x);
  AdamW optimizer(TensorList{x}, {.lr = 0.1, .weight_decay = 0.5});
  set_gradients({x}, 0);
  optimizer.step();
  want.step(numbers(5, 100, 0), 0.1, 0.5, {}, 1);
  EXPECT_TRUE(is_close(x.detach().to_vector<double>(), want.p, kTolerance));
}

TEST(AdamW, LeavesParametersWithoutGradientAlone) {
  TensorList parameters = odd_parameters();
  Tensor before = parameters[1].detach().clone();
  AdamW optimizer(parameters, {.weight_decay = 0.5});
  optimizer.step();
  set_gradients(parameters, 0, [](size_t p, uint64_t) { return p != 1; });
  optimizer.step();
  EXPECT_TRUE(same_bits(parameters[1].detach(), before)) << "it must not decay either";
  for (const auto& [name, tensor] : optimizer.state_dict()) EXPECT_FALSE(name.starts_with("1."));
}

TEST(AdamW, TakesGradientsOfAnyLayout) {
  Tensor x = parameter_of({3, 5}, 1), y = x.detach().clone().set_requires_grad();
  Tensor gradient = tensor_of(numbers(15, 9), {5, 3}).transpose(0, 1);
  AdamW a(TensorList{x}), b(TensorList{y});
  x.set_grad(gradient);
  y.set_grad(gradient.contiguous());
  a.step();
  b.step();
  EXPECT_TRUE(same_bits(x.detach(), y.detach()));
}

TEST(AdamW, ResumesFromItsStateToTheBit) {
  expect_exact_resume([](const TensorList& parameters) {
    return std::make_unique<AdamW>(parameters, AdamWOptions{.lr = 0.05, .weight_decay = 0.1});
  });
}

TEST(AdamW, RefusesAStateThatDoesNotFitAndKeepsItsOwn) {
  TensorList parameters = odd_parameters();
  AdamW optimizer(parameters);
  set_gradients(parameters, 0);
  optimizer.step();
  nn::NamedTensors before = copy_of(optimizer.state_dict());
  auto expect_refused = [&](auto&& change, const std::vector<std::string>& parts) {
    nn::NamedTensors state;
    for (auto& [name, tensor] : before) {
      Tensor other = tensor * 2;
      if (change(name, other)) state.emplace_back(name, other);
    }
    expect_error([&] { optimizer.load_state_dict(state); }, parts);
    nn::NamedTensors after = optimizer.state_dict();
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(same_bits(after[i].second, before[i].second)) << before[i].first;
    EXPECT_EQ(optimizer.steps(), 1);
  };
  auto without = [](const char* gone) {
    return [gone](const std::string& name, Tensor&) { return name != gone; };
  };
  auto with = [](const char* place, const Tensor& value) {
    return [=](const std::string& name, Tensor& tensor) {
      if (name == place) tensor = value;
      return true;
    };
  };
  expect_refused(without("steps"), {"steps"});
  expect_refused(without("updates"), {"updates", "4 parameters"});
  expect_refused(without("3.second_moment"), {"parameter 3", "first_moment", "second_moment"});
  expect_refused(with("0.first_moment", zeros({5, 3})), {"0.first_moment", "(5, 3)", "(3, 5)"});
  expect_refused(with("0.first_moment", zeros({3, 5}, DType::f64)), {"0.first_moment", "f64", "f32"});
  expect_refused(with("steps", zeros({2}, DType::i64)), {"steps"});
  expect_refused(with("updates", zeros({3}, DType::i64)), {"updates"});
  TensorList fewer = {parameters[0]};
  AdamW other(fewer);
  nn::NamedTensors state = before;
  state.back().second = zeros({1}, DType::i64);
  expect_error([&] { other.load_state_dict(state); }, {"optimizer", "8", "2"});
}

TEST(AdamW, RefusesBetasOutOfRange) {
  TensorList parameters = odd_parameters();
  expect_error([&] { AdamW optimizer(parameters, {.beta1 = 1}); }, {"AdamW", "betas"});
  expect_error([&] { AdamW optimizer(parameters, {.beta2 = -0.1}); }, {"AdamW", "betas"});
}

}  // namespace
}  // namespace reprise::optim
