// reprise-recompute: exit code 0 on success, 2 on bad input (one line that says what and where), 1 when
// `verify` finds a difference, or on a defect of the program.
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/program.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/device.h"
#include "reprise/nn/memory/step_memory.h"
#include "reprise/train/precision.h"

namespace reprise::apps::recompute {
namespace {

// With the batch that would have fitted without recompute, as most commands begin: by steps of a model that is made anew.
[[noreturn]] void fail_with_advice(const OutOfMemory& refused, const WorkloadOptions& options) {
  std::string advice = "; the model and the state of its optimizer alone do not fit";
  try {
    const std::unique_ptr<Workload> workload = make_workload(options);
    Trainee trainee(*workload);
    trainee.optimizer().allocate_state();
    advice = "; not even --batch " + std::to_string(workload->least_rows) + " fits without recompute";
    const auto loss = [&](int64_t rows) { return trainee.model.loss(workload->batch(0, rows)); };
    const nn::StepMemory memory = nn::measure_step(
        *trainee.model.module,
        {.device = workload->device,
         .loss = loss,
         .set_recompute =
             [&](const RecomputeStrategy& strategy) { trainee.model.blocks.set_recompute(strategy); },
         .smallest = workload->least_rows,
         .optimizer = &trainee.optimizer()},
        parse_strategy("none"));
    const int64_t fits = memory.largest(nn::room_in(nn::memory_for_tensors(workload->device)));
    if (fits >= workload->least_rows)
      advice = fits < workload->rows
                   ? "; without recompute --batch " +
                         std::to_string(fits / workload->least_rows * workload->least_rows) + " would fit"
                   : unknown_fit;
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
