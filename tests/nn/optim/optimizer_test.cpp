// What all optimizers share: groups, gradient norms, clipping.
#include "reprise/nn/optim/optimizer.h"

#include <cmath>

#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/lars.h"
#include "reprise/nn/optim/optimizer_list.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/nn/optim/parameters.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::optim {
namespace {

using namespace testing;

double norm_of(const TensorList& parameters) {
  double squares = 0;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined())
      for (double g : gradient.to_vector<double>()) squares += g * g;
  return std::sqrt(squares);
}

bool not_the_second(size_t p, uint64_t) { return p != 1; }

// State that is there before the first step: as many tensors as after it, and the same parameters.
TEST(Optimizer, AllocatesTheStateOfItsFirstStep) {
  using Make = std::function<std::unique_ptr<Optimizer>(TensorList)>;
  const Make makes[] = {
      [](TensorList p) { return std::make_unique<AdamW>(std::move(p)); },
      [](TensorList p) { return std::make_unique<Lamb>(std::move(p)); },
      [](TensorList p) { return std::make_unique<Lars>(std::move(p)); },
      [](TensorList p) { return std::make_unique<Sgd>(std::move(p), SgdOptions{.momentum = 0.9}); },
      [](TensorList p) { return std::make_unique<Sgd>(std::move(p)); }};
  for (size_t kind = 0; kind < std::size(makes); ++kind) {
    TensorList plain = odd_parameters(), planned = odd_parameters();
    auto first = makes[kind](plain), second = makes[kind](planned);
    OptimizerList list({*second});
    list.allocate_state();
    const size_t tensors = second->state_dict().size();
    for (uint64_t step = 0; step < 2; ++step) {
      set_gradients(plain, step);
      set_gradients(planned, step);
      first->step();
      second->step();
    }
    EXPECT_EQ(tensors, first->state_dict().size()) << kind;
    for (size_t p = 0; p < plain.size(); ++p)
      EXPECT_EQ(plain[p].detach().to_vector<float>(), planned[p].detach().to_vector<float>())
          << kind << ' ' << p;
  }
}

TEST(GradNorm, IsTheNormOfAllGradientsAsOneVector) {
  TensorList parameters = odd_parameters();
  EXPECT_EQ(grad_norm(parameters), 0);
  set_gradients(parameters, 0, not_the_second);
  EXPECT_NEAR(grad_norm(parameters), norm_of(parameters), 1e-12);  // f64 sums in another order
  parameters[0].set_grad(tensor_of(numbers(15, 3), {5, 3}).transpose(0, 1));
  EXPECT_NEAR(grad_norm(parameters), norm_of(parameters), 1e-12);
}

TEST(ClipGradNorm, ScalesGradientsDownToTheNormGivenAndReturnsTheOldOne) {
  TensorList parameters = odd_parameters();
  set_gradients(parameters, 0, not_the_second);
  double before = norm_of(parameters);
  ASSERT_GT(before, 1);
  std::vector<double> gradient = parameters[0].grad().to_vector<double>();
  EXPECT_NEAR(clip_grad_norm(parameters, 0.5), before, 1e-12);
  EXPECT_NEAR(norm_of(parameters), 0.5, 2e-6);  // the 1e-6 of clip_scale, and f32 gradients
  for (double& g : gradient) g *= 0.5 / before;
  EXPECT_TRUE(is_close(parameters[0].grad().to_vector<double>(), gradient, 2e-6));
  EXPECT_FALSE(parameters[1].grad().defined());
}

TEST(ClipGradNorm, LeavesSmallGradientsAloneToTheBit) {
  TensorList parameters = odd_parameters();
  set_gradients(parameters, 0);
  Tensor before = parameters[0].grad().clone();
  clip_grad_norm(parameters, 1000);
  EXPECT_TRUE(same_bits(parameters[0].grad(), before));
  EXPECT_EQ(clip_grad_norm({parameter_of({3}, 1)}, 1), 0) << "there are no gradients at all";
}

TEST(ClipScale, IsOneUpToTheLargestNorm) {
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_EQ(clip_scale(0.99, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
  EXPECT_NEAR(clip_scale(4, 2), 0.5, 1e-6);
}

TEST(Optimizer, GradientScaleIsWhatClippingInPlaceWouldBe) {
  TensorList a = odd_parameters(), b = odd_parameters();
  set_gradients(a, 0);
  set_gradients(b, 0);
  AdamW scaled(a), clipped(b);
  scaled.step(clip_scale(grad_norm(a), 0.5));
  clip_grad_norm(b, 0.5);
  clipped.step();
  for (size_t p = 0; p < a.size(); ++p)
    EXPECT_TRUE(is_close(a[p].detach(), b[p].detach(), 1e-6));  // one f32 rounding of the gradient
}

TEST(Optimizer, DropsGradientsAndSetsTheRateOfEveryGroup) {
  TensorList parameters = odd_parameters();
  AdamW optimizer(std::vector<ParameterGroup>{{{parameters[0]}, 0.1, 0}, {{parameters[1]}, 0.1, 0.5}});
  set_gradients(parameters, 0);
  optimizer.zero_grad();
  EXPECT_FALSE(parameters[0].grad().defined() || parameters[1].grad().defined());
  EXPECT_TRUE(parameters[2].grad().defined()) << "not the optimizer's";
  optimizer.set_lr(0.3);
  EXPECT_EQ(optimizer.groups()[0].lr, 0.3);
  EXPECT_EQ(optimizer.groups()[1].lr, 0.3);
}

TEST(Optimizer, KeepsEachGroupsShareOfTheRateThatAScheduleSets) {
  for (bool adamw : {false, true}) {
    TensorList given = odd_parameters(), want = odd_parameters();
    auto make = [&](std::vector<ParameterGroup> groups) -> std::unique_ptr<Optimizer> {
      if (adamw) return std::make_unique<AdamW>(std::move(groups));
      return std::make_unique<Sgd>(std::move(groups));
    };
    auto scaled = make({{.parameters = {given[0], given[2]}}, {.parameters = {given[1]}, .lr_scale = 0.25}});
    auto first = make({{.parameters = {want[0], want[2]}}}), second = make({{.parameters = {want[1]}}});
    for (uint64_t step = 0; step < 3; ++step) {
      set_gradients(given, step);
      set_gradients(want, step);
      double lr = 0.5 / double(step + 1);
      scaled->set_lr(lr);
      first->set_lr(lr);
      second->set_lr(0.25 * lr);
      for (Optimizer* optimizer : {scaled.get(), first.get(), second.get()}) optimizer->step();
    }
    EXPECT_TRUE(same_bits(given, want));
    EXPECT_EQ(scaled->all_groups()[1]->lr_scale, 0.25);
  }
}

TEST(Optimizer, RefusesToFlattenRatesThatGroupsHaveOfTheirOwn) {
  TensorList parameters = odd_parameters();
  Sgd optimizer(std::vector<ParameterGroup>{{{parameters[0]}, 0.1}, {{parameters[1]}, 0.001}});
  expect_error([&] { optimizer.set_lr(0.3); }, {"set_lr", "0.1", "0.001", "lr_scale"});
  EXPECT_EQ(optimizer.groups()[1].lr, 0.001);
  optimizer.groups()[1].lr = 0.1;
  optimizer.set_lr(0.3);
  for (double lr : {-1.0, double(NAN), double(INFINITY)})
    expect_error([&] { optimizer.set_lr(lr); }, {"set_lr", "rate"});
}

TEST(Optimizer, RefusesOptionsThatGroupsWouldMakeItIgnore) {
  Tensor x = parameter_of({3}, 1);
  auto groups = [&] { return std::vector<ParameterGroup>{{{x}, 0.1}}; };
  expect_error([&] { AdamW optimizer(groups(), {.lr = 1e-3}); }, {"AdamW", "lr 0.001", "groups"});
  expect_error([&] { AdamW optimizer(groups(), {.weight_decay = 0.01}); }, {"AdamW", "weight_decay 0.01"});
  expect_error([&] { Sgd optimizer(groups(), {.lr = 1e-2}); }, {"Sgd", "lr 0.01", "groups"});
  expect_error([&] { Sgd optimizer(groups(), {.weight_decay = 0}); }, {"Sgd", "weight_decay 0"});
  EXPECT_NO_THROW(AdamW(groups(), {.beta1 = 0.8}));
  EXPECT_NO_THROW(Sgd(groups(), {.momentum = 0.8}));
}

TEST(Optimizer, RefusesNumbersThatSpoilParameters) {
  Tensor x = parameter_of({3}, 1);
  const double nan = double(NAN), inf = double(INFINITY);
  for (double bad : {-1.0, nan, inf}) {
    expect_error([&] { AdamW optimizer({x}, {.lr = bad}); }, {"optimizer", "lr"});
    expect_error([&] { AdamW optimizer({x}, {.beta1 = bad}); }, {"AdamW", "betas"});
    expect_error([&] { AdamW optimizer({x}, {.beta2 = bad}); }, {"AdamW", "betas"});
    expect_error([&] { AdamW optimizer({x}, {.eps = bad}); }, {"AdamW", "eps"});
    expect_error([&] { AdamW optimizer({x}, {.weight_decay = bad}); }, {"optimizer", "weight decay"});
    expect_error([&] { Sgd optimizer({x}, {.momentum = bad}); }, {"Sgd", "momentum"});
    expect_error([&] { Sgd optimizer({ParameterGroup{.parameters = {x}, .lr_scale = bad}}); },
                 {"optimizer", "lr_scale"});
  }
  expect_error([&] { AdamW optimizer({x}, {.beta1 = 1}); }, {"AdamW", "betas"});
  Sgd optimizer({x}, {.lr = 0.1});
  x.set_grad(ones({3}));
  Tensor before = x.detach().clone();
  for (double bad : {nan, inf}) expect_error([&] { optimizer.step(bad); }, {"step", "gradient_scale"});
  optimizer.groups()[0].lr = nan;
  expect_error([&] { optimizer.step(); }, {"optimizer", "group 0", "nan"});
  EXPECT_TRUE(same_bits(x.detach(), before));
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST(ClipGradNorm, RefusesANormThatIsNotFinite) {
  Tensor x = parameter_of({3}, 1);
  x.set_grad(Tensor::from<float>({1, float(NAN), 1}, {3}));
  expect_error([&] { clip_grad_norm({x}, 1); }, {"clip", "nan"});
  expect_error([&] { clip_scale(double(INFINITY), 1); }, {"clip", "inf"});
  expect_error([&] { clip_scale(1, -1); }, {"clip", "max_norm", "-1"});
}

TEST(ClipGradNorm, ScalesAnExpandedGradientElementByElement) {
  Tensor x = parameter_of({3}, 1);
  x.set_grad(Tensor::from<float>({4}, {1}).expand({3}));
  EXPECT_NEAR(clip_grad_norm({x}, 1), 4 * std::sqrt(3.0), 1e-12);
  EXPECT_TRUE(is_close(x.grad().to_vector<double>(), Doubles(3, 1 / std::sqrt(3.0)), 1e-6));
}

TEST(Optimizer, TakesAnExpandedGradient) {
  Tensor x = tensor_of({1, 2, 3}, {3}).set_requires_grad();
  x.set_grad(Tensor::from<float>({4}, {1}).expand({3}));
  Sgd optimizer({x}, {.lr = 0.25});
  optimizer.step();
  EXPECT_EQ(x.detach().to_vector<double>(), (Doubles{0, 1, 2}));
}

// A module of one parameter, to be moved.
struct Point : nn::Module {
  Tensor x = register_parameter("x", tensor_of({1, 2, 3}, {3}));
};

TEST(Optimizer, RefusesParametersThatWereMovedAwayFromItsState) {
  Device device = test_device();
  if (device.is_cpu()) GTEST_SKIP() << "there is no other device";
  for (bool adamw : {false, true}) {
    Point stays, moves;
    auto make = [&](Point& point) -> std::unique_ptr<Optimizer> {
      if (adamw) return std::make_unique<AdamW>(point.parameters(), AdamWOptions{.lr = 0.1});
      return std::make_unique<Sgd>(point.parameters(), SgdOptions{.lr = 0.1, .momentum = 0.9});
    };
    auto want = make(stays), optimizer = make(moves);
    auto step = [](Point& point, Optimizer& o) {
      point.x.set_grad(ones({3}, DType::f32, point.x.device()));
      o.step();
    };
    step(stays, *want);
    step(moves, *optimizer);
    moves.to(device);
    Tensor before = moves.x.detach().clone();
    expect_error([&] { step(moves, *optimizer); },
                 {"step", "parameter 0 was moved to", adamw ? "first_moment" : "velocity", "is on cpu"});
    EXPECT_TRUE(same_bits(moves.x.detach(), before));
    EXPECT_EQ(optimizer->steps(), 1);
    optimizer->load_state_dict(optimizer->state_dict());
    step(stays, *want);
    step(moves, *optimizer);
    EXPECT_TRUE(is_close(moves.x.detach().to(Device::cpu()), stays.x.detach(), 1e-6));  // one f32 rounding
  }
}

TEST(Optimizer, MayBeMadeBeforeTheMoveIfItHasNoState) {
  Device device = test_device();
  Point point;
  AdamW optimizer(point.parameters(), {.lr = 0.25});
  point.to(device);
  point.x.set_grad(ones({3}, DType::f32, device));
  optimizer.step();
  EXPECT_EQ(optimizer.state_dict()[0].second.device(), device);
}

TEST(Optimizer, RefusesCountsThatNoRunReaches) {
  Tensor x = parameter_of({3}, 1);
  AdamW optimizer(TensorList{x});
  x.set_grad(ones({3}));
  optimizer.step();
  for (int64_t bad : {int64_t(-1), INT64_MAX})
    for (const char* which : {"updates", "steps"}) {
      nn::NamedTensors state = copy_of(optimizer.state_dict());
      for (auto& [name, tensor] : state)
        if (name == which) tensor = Tensor::from<int64_t>({bad}, {1});
      expect_error([&] { optimizer.load_state_dict(state); }, {which, std::to_string(bad)});
    }
  nn::NamedTensors state = copy_of(optimizer.state_dict());
  state[0].second = Tensor();
  expect_error([&] { optimizer.load_state_dict(state); }, {"optimizer", "undefined"});
  EXPECT_EQ(optimizer.steps(), 1);
}

TEST(Optimizer, AnUpdateMakesSavedValuesOfTheParameterStale) {
  Tensor x = parameter_of({3}, 1);
  Tensor loss = square(x).sum();  // keeps x for its gradient
  AdamW optimizer(TensorList{x});
  x.set_grad(ones({3}));
  optimizer.step();
  expect_error([&] { loss.backward(); }, {"square"});
}

TEST(Optimizer, RefusesParametersItCannotUpdate) {
  Tensor x = parameter_of({3, 5}, 1);
  auto make = [](TensorList parameters) { AdamW optimizer(std::move(parameters)); };
  expect_error([&] { make({}); }, {"optimizer", "no parameters"});
  expect_error([&] { make({x, zeros({3})}); }, {"optimizer", "parameter 1", "requires grad"});
  expect_error([&] { make({x * 2.0}); }, {"optimizer", "parameter 0", "leaf"});
  expect_error([&] { make({Tensor()}); }, {"optimizer", "parameter 0"});
  expect_error([&] { make({x, x}); }, {"optimizer", "parameter 1", "twice"});
  expect_error([&] { AdamW optimizer({x}, {.lr = -1}); }, {"optimizer", "-1"});
  expect_error([&] { AdamW optimizer({x}, {.weight_decay = double(NAN)}); }, {"optimizer", "nan"});
}

TEST(ClipGradValue, CutsEachElementOff) {
  Tensor x = parameter_of({4}, 1), expanded = parameter_of({3}, 2), none = parameter_of({3}, 3);
  x.set_grad(Tensor::from<float>({-4, -0.5, 0.25, 3}, {4}));
  expanded.set_grad(Tensor::from<float>({-4}, {1}).expand({3}));
  const void* memory = x.grad().storage().get();
  clip_grad_value({x, none, expanded}, 0.5);
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{-0.5, -0.5, 0.25, 0.5}));
  EXPECT_EQ(expanded.grad().to_vector<double>(), Doubles(3, -0.5));
  EXPECT_EQ(x.grad().storage().get(), memory) << "in place";
  EXPECT_FALSE(none.grad().defined());
  expect_error([&] { clip_grad_value({x}, 0); }, {"clip", "max_value", "0"});
}

TEST(Optimizer, SetsTheWeightDecayOfTheGroupsThatDecay) {
  TensorList p = odd_parameters();
  Sgd optimizer(std::vector<ParameterGroup>{{{p[0]}, 0.1, 0.04}, {{p[1]}, 0.1, 0}, {{p[2]}, 0.1, 0.04}});
  optimizer.set_weight_decay(0.4);
  EXPECT_EQ(optimizer.groups()[0].weight_decay, 0.4);
  EXPECT_EQ(optimizer.groups()[1].weight_decay, 0);
  EXPECT_EQ(optimizer.groups()[2].weight_decay, 0.4);
  optimizer.set_weight_decay(0);  // a schedule may pass through it
  optimizer.set_weight_decay(0.4);
  EXPECT_EQ(optimizer.groups()[0].weight_decay, 0.4);
  EXPECT_EQ(optimizer.groups()[1].weight_decay, 0);
  for (double bad : {-1.0, double(NAN)})
    expect_error([&] { optimizer.set_weight_decay(bad); }, {"set_weight_decay", "at least 0"});
  optimizer.groups()[2].weight_decay = 0.3;
  expect_error([&] { optimizer.set_weight_decay(0.1); }, {"set_weight_decay", "0.4", "0.3"});
}

}  // namespace
}  // namespace reprise::optim
