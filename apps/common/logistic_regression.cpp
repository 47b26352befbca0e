#include "reprise/apps/common/logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/train/interrupt.h"

namespace reprise::apps {
namespace {

constexpr size_t remembered = 10;         // steps that shape the next direction
constexpr double enough_decrease = 1e-4;  // of what the slope promises (Armijo 1966)
constexpr int most_halvings = 20;

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }

struct Point {
  Tensor weight, gradient;
  double loss = 0;
};

// A step, how the gradient changed on it, and the inverse of their product.
struct Step {
  Tensor move, change;
  double scale = 0;
};

// The two loops: the approximate inverse Hessian times the gradient.
Tensor preconditioned(const Tensor& gradient, const std::deque<Step>& steps) {
  Tensor direction = gradient;
  std::vector<double> share(steps.size());
  for (size_t i = steps.size(); i-- > 0;) {
    share[i] = steps[i].scale * dot(steps[i].move, direction);
    direction = direction - steps[i].change * share[i];
  }
  const Step& last = steps.back();
  direction = direction * (1 / (last.scale * dot(last.change, last.change)));
  for (size_t i = 0; i < steps.size(); ++i)
    direction = direction + steps[i].move * (share[i] - steps[i].scale * dot(steps[i].change, direction));
  return direction;
}

}  // namespace

Regression logistic_regression(const Tensor& given, const Tensor& labels, int64_t classes,
                               const RegressionOptions& options) {
  const Tensor features = given.to(DType::f64);  // f32 could not tell the losses of the last steps apart
  auto at = [&](const Tensor& weight) {
    Tensor leaf = weight.detach().set_requires_grad();
    Tensor loss = cross_entropy(linear(features, leaf, {}), labels) + sum(square(leaf)) * (options.l2 / 2);
    loss.backward();
    return Point{.weight = leaf.detach(), .gradient = leaf.grad(), .loss = loss.item()};
  };
  Point here = at(Tensor::zeros({classes, features.size(1)}, features.dtype(), features.device()));
  std::deque<Step> steps;
  int iteration = 0;
  NoGrad guard;
  for (; iteration < options.iterations; ++iteration) {
    train::stop_if_interrupted();
    if (max(abs(here.gradient)).item() <= options.tolerance) break;
    const bool first = steps.empty();
    Tensor direction = first ? here.gradient : preconditioned(here.gradient, steps);
    const double slope = dot(here.gradient, direction);
    double length = first ? 1 / std::max(std::sqrt(slope), 1.0) : 1;
    Point next;
    int halvings = 0;
    do {
      EnableGrad recording;
      next = at(here.weight - direction * length);
      length /= 2;
    } while (next.loss > here.loss - enough_decrease * 2 * length * slope && ++halvings < most_halvings);
    if (halvings == most_halvings) break;
    Step step{.move = next.weight - here.weight, .change = next.gradient - here.gradient};
    const double product = dot(step.move, step.change);
    here = next;
    if (product <= 0) continue;  // rounding: the loss is convex
    step.scale = 1 / product;
    steps.push_back(step);
    if (steps.size() > remembered) steps.pop_front();
  }
  return {.weight = here.weight, .loss = here.loss, .iterations = iteration};
}

double accuracy(const Regression& regression, const Tensor& features, const Tensor& labels) {
  NoGrad guard;
  Tensor logits = linear(features.to(DType::f64), regression.weight, {});
  const std::vector<double> values = logits.to_vector<double>();
  const std::vector<int64_t> wanted = labels.to_vector<int64_t>();
  const int64_t classes = logits.size(1);
  int64_t right = 0;
  for (size_t row = 0; row < wanted.size(); ++row) {
    const auto begin = values.begin() + int64_t(row) * classes;
    right += std::max_element(begin, begin + classes) - begin == wanted[row];
  }
  return double(right) / double(wanted.size());
}

}  // namespace reprise::apps
