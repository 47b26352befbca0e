// What all optimizers share: groups, gradient norms, clipping.
#include "reprise/nn/optim/optimizer.h"

#include <cmath>

#include "reprise/nn/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/optim/parameters.h"

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
  AdamW optimizer(std::vector<ParameterGroup>{{{parameters[0]}, 0.1, 0}, {{parameters[1]}, 0.2, 0}});
  set_gradients(parameters, 0);
  optimizer.zero_grad();
  EXPECT_FALSE(parameters[0].grad().defined() || parameters[1].grad().defined());
  EXPECT_TRUE(parameters[2].grad().defined()) << "not the optimizer's";
  optimizer.set_lr(0.3);
  EXPECT_EQ(optimizer.groups()[0].lr, 0.3);
  EXPECT_EQ(optimizer.groups()[1].lr, 0.3);
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

TEST(DecayMatrices, DecaysTablesAndMatricesOnly) {
  nn::Gpt model({.vocab_size = 7, .context = 3, .layers = 2, .heads = 1, .width = 2});
  std::vector<ParameterGroup> groups = decay_matrices(model, 0.1, 0.5);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].weight_decay, 0.5);
  EXPECT_EQ(groups[1].weight_decay, 0);
  EXPECT_EQ(groups[0].lr, 0.1);
  EXPECT_EQ(groups[1].lr, 0.1);
  EXPECT_EQ(groups[0].parameters.size(), 2 + 2 * 4u);
  EXPECT_EQ(groups[1].parameters.size(), 2 + 2 * 8u);
  for (const Tensor& matrix : groups[0].parameters) EXPECT_EQ(matrix.rank(), 2);
  for (const Tensor& vector : groups[1].parameters) EXPECT_EQ(vector.rank(), 1);
}

}  // namespace
}  // namespace reprise::optim
