// reprise-recompute verify: two models from one seed, one of them with recompute, through the same steps.
#include <fmt/core.h>

#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/bytes.h"
#include "reprise/train/output.h"
#include "reprise/train/same_bits.h"

namespace reprise::apps::recompute {
namespace {

// Below this share of the activations a strategy has gained nothing worth its time.
constexpr double least_gain_percent = 5;
constexpr size_t most_shown = 8;

// What differs, with the step at which it did.
using Findings = std::vector<std::pair<int64_t, train::Difference>>;

void add(Findings& findings, int64_t step, const nn::NamedTensors& got, const nn::NamedTensors& want) {
  for (train::Difference& difference : train::differences(got, want))
    findings.emplace_back(step, std::move(difference));
}

// Trains both and compares losses and gradients of every step, weights and buffers, such as
// running statistics, at the end.
Findings train_both(const VerifyCommand& c, const Workload& workload, const Prepared& prepared) {
  Trainee plain(workload), recomputed(workload);
  recomputed.set_recompute(prepared);
  Findings findings;
  for (int64_t step = 0; step < c.steps; ++step) {
    Batch batch = workload.batch(step, workload.rows);
    Tensor want = plain.forward(step, batch), got = recomputed.forward(step, batch);
    want.backward();
    got.backward();
    add(findings, step, {{"the loss", got}}, {{"the loss", want}});
    nn::NamedTensors gradients = plain.gradients();
    for (auto& [name, gradient] : gradients) name = "the gradient of " + name;
    nn::NamedTensors others = recomputed.gradients();
    for (auto& [name, gradient] : others) name = "the gradient of " + name;
    add(findings, step, others, gradients);
    plain.update();
    recomputed.update();
  }
  add(findings, c.steps, recomputed.model.module->state_dict(), plain.model.module->state_dict());
  return findings;
}

void print_measurements(const std::vector<nn::StrategyCost>& costs) {
  const nn::StrategyCost &plain = costs[0], &with = costs[1];
  auto row = [](const char* what, const std::string& a, const std::string& b, double percent,
                const char* side) {
    train::print("{:<34}{:>24}{:>24}{:>8.1f} % {}\n", what, a, b, percent, side);
  };
  auto bytes = [&](const char* what, size_t nn::StrategyCost::*field) {
    size_t a = plain.*field, b = with.*field;
    row(what, format_bytes(a), format_bytes(b), percent_below(double(a), double(b)), "less");
  };
  train::print("{:<34}{:>24}{:>24}\n", "", "none", with.strategy);
  bytes("peak memory", &nn::StrategyCost::peak);
  bytes("peak of activations + recompute", &nn::StrategyCost::peak_activations);
  bytes("held for backward", &nn::StrategyCost::held);
  row("time of a step (least to most)", in_ms(plain.seconds), in_ms(with.seconds), overhead_percent(with),
      "more");
  double gain = percent_below(double(plain.peak_activations), double(with.peak_activations));
  if (gain < least_gain_percent)
    train::print(
        "\nThis model is too small, or the strategy too weak, to gain: the peak of its activations is "
        "{:.1f} % lower.\n",
        gain);
}

}  // namespace

int run_verify(const VerifyCommand& c) {
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  const std::string strategy = with_predictor(c.recompute, c.workload);
  check_strategy(strategy, workload);
  train::print("{}\nTraining {} steps without recompute and with {}\n\n", workload.to_string(), c.steps,
               strategy);
  const std::vector<std::string> strategies = {"none", strategy};
  std::vector<Prepared> prepared;
  {
    Trainee trainee(workload);
    const Batch batch = workload.batch(0, workload.rows);
    trainee.step(0, batch);  // makes the optimizer's moments
    prepared = prepare_all(trainee, strategies, batch);
    print_measurements(measure(trainee, strategies, prepared, batch, c.steps));
  }
  Findings findings = train_both(c, workload, prepared[1]);
  if (findings.empty()) {
    train::print("\nPASS: losses, gradients, weights and buffers are bit-equal in all {} steps.\n", c.steps);
    return 0;
  }
  train::print("\nFAIL: tensors that differ: {}\n", findings.size());
  for (size_t i = 0; i < std::min(findings.size(), most_shown); ++i)
    train::print("  step {}: {}: {}\n", findings[i].first, findings[i].second.name, findings[i].second.what);
  return 1;
}

}  // namespace reprise::apps::recompute
