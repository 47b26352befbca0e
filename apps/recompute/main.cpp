// reprise-recompute: exit code 0 on success, 2 on bad input (one line that says what and where), 1 when
// `verify` finds a difference, or on a defect of the program.
#include "reprise/apps/common/program.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/apps/recompute/strategies.h"
#include "reprise/core/device.h"
#include "reprise/nn/memory/memory_advice.h"
#include "reprise/train/precision.h"

namespace reprise::apps::recompute {
namespace {

// What fits without recompute, as most commands begin, and what fits with it.
std::string advice_on(const nn::FittingSteps& f) {
  const bool is_wrong = f.own_rows >= f.rows;  // it was predicted to fit, and has not
  std::string text, with;
  if (!is_wrong && f.own_rows > 0)
    text = "; without recompute --batch " + std::to_string(f.own_rows) + " would fit";
  else if (!is_wrong)
    text = "; not even --batch " + std::to_string(f.smallest) + " fits without recompute";
  for (const std::string& strategy : f.strategies) with += (with.empty() ? "" : ", ") + strategy;
  int64_t rows = f.rows;
  if (with.empty() && !is_wrong && f.most_rows > f.own_rows) with = f.best, rows = f.most_rows;
  if (with.empty()) return is_wrong ? unknown_fit : text;
  return text + "; --batch " + std::to_string(rows) + " would fit with --recompute " + with;
}

// By steps of a model that is made anew.
[[noreturn]] void fail_with_advice(const OutOfMemory& refused, const WorkloadOptions& options) {
  std::string advice = "; the model and the state of its optimizer alone do not fit";
  try {
    const std::unique_ptr<Workload> workload = make_workload(options);
    Trainee trainee(*workload);
    trainee.optimizer().allocate_state();
    const std::vector<nn::MeasuredStrategy> measured = nn::measure_strategies(
        *trainee.model.module,
        {.device = workload->device,
         .loss = [&](int64_t rows) { return trainee.model.loss(workload->batch(0, rows)); },
         .set_recompute =
             [&](const RecomputeStrategy& strategy) {
               trainee.set_recompute(prepared_for(with_predictor(to_string(strategy), options), *workload));
             },
         .smallest = workload->least_rows,
         .optimizer = &trainee.optimizer()},
        "none");
    const size_t limit = nn::memory_for_tensors(workload->device);
    advice = "; " + nn::predicted_step(measured, workload->rows, "row", limit) +
             advice_on(nn::fitting_steps(measured, "none", workload->rows, workload->least_rows, limit));
  } catch (const OutOfMemory&) {
  } catch (const std::bad_alloc&) {}
  fail(refused.what(), advice);
}

}  // namespace
}  // namespace reprise::apps::recompute

int main(int argc, char** argv) {
  using namespace reprise::apps::recompute;
  return reprise::apps::run_program("reprise-recompute", argc, argv, [&] {
    Command command = parse_command_line(argc, argv);
    auto in_precision = [](const auto& run, const auto& of) {
      const std::string &precision = of.workload.precision, &device = of.workload.device;
      const reprise::train::PrecisionScope scope(reprise::train::parse_precision(precision),
                                                 reprise::Device::parse(device));
      try {
        return run(of);
      } catch (const reprise::OutOfMemory& refused) { fail_with_advice(refused, of.workload); }
    };
    switch (command.kind) {
      case Command::Kind::compare:
        return in_precision(run_compare, command.compare);
      case Command::Kind::max_batch:
        return in_precision(run_max_batch, command.max_batch);
      case Command::Kind::profile:
        return in_precision(run_profile, command.profile);
      case Command::Kind::plan:
        return in_precision(run_plan, command.plan);
      case Command::Kind::explain:
        return in_precision(run_explain, command.explain);
      case Command::Kind::memory:
        return in_precision(run_memory, command.memory);
      case Command::Kind::verify:
        break;
    }
    return in_precision(run_verify, command.verify);
  });
}
