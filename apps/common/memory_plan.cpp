// What a run says of its memory before its first step.
#include <algorithm>

#include "reprise/apps/common/batch_choice.h"
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/core/bytes.h"
#include "reprise/core/memory.h"
#include "reprise/core/number_in.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

const MeasuredStrategy* find(const std::vector<MeasuredStrategy>& measured, const std::string& strategy) {
  auto found = std::ranges::find(measured, strategy, &MeasuredStrategy::strategy);
  return found == measured.end() ? nullptr : &*found;
}

// What is chosen is to fit on each of them.
size_t least_of_ranks(size_t own, distributed::ProcessGroup& group) {
  size_t least = own;
  for (const std::string& bytes : group.gather_text(std::to_string(own)))
    least = std::min(least, number_in<size_t>(bytes).value_or(0));
  return least;
}

struct TrainedBytes {
  double weights, optimizer;
  std::string gradients;  // in words
};

// Of this rank, in a step.
TrainedBytes trained_bytes(const TrainingOptions& o, const TrainedModel& t, Device device, int64_t sums) {
  if (shares_steps(o, t)) {
    const auto most = SharedMemory(o, t, device).most();
    auto of = [&](MemoryCategory category) { return double(most[size_t(category)]); };
    return {of(MemoryCategory::parameters), of(MemoryCategory::optimizer),
            in_mib(of(MemoryCategory::gradients))};
  }
  double weights = 0;
  for (const Tensor& x : t.model.parameters()) weights += double(x.numel()) * double(size_of(x.dtype()));
  const double state = double(allocator(device).stats().by_category[size_t(MemoryCategory::optimizer)]);
  return {weights, state,
          (sums > 1 ? fmt::format("{} x ", sums) : "") + in_mib(double(gradient_bytes(t.optimizer)))};
}

}  // namespace

void report_memory(TrainingOptions& o, Device device, const TrainedModel& t,
                   distributed::ProcessGroup& group) {
  t.optimizer.allocate_state();
  const int64_t sums = o.batch_auto ? 1 : gradient_sums(o, own_share(o));
  const std::vector<MeasuredStrategy> measured = measure_strategies(o, t, device);
  const size_t windows = window_bytes(o, gradient_bytes(t.optimizer), device, group.size()),
               free_memory = o.batch_auto ? least_of_ranks(memory_of_rank(device), group)
                                          : nn::memory_for_tensors(device),
               limit = free_memory - std::min(free_memory, windows);
  const TrainedBytes bytes = trained_bytes(o, t, device, sums);
  train::report("Memory: weights {}, gradients {}{}, optimizer {} MiB; per {}: {} MiB\n",
                in_mib(bytes.weights), bytes.gradients,
                windows > 0 ? fmt::format(" and {} in NCCL's windows", in_mib(double(windows))) : "",
                in_mib(bytes.optimizer), t.row, each_strategy(measured, [&](const nn::StepMemory& m) {
                  return in_mib((double(m.peak(2 * o.batch)) - double(m.peak(o.batch))) / double(o.batch));
                }));
  train::report(
      "A step of {}: {} of {} MiB; largest batch: {}\n", o.batch,
      each_strategy(measured, [&](const nn::StepMemory& m) { return in_mib(double(m.peak(o.batch))); }),
      in_mib(double(limit)), each_strategy(measured, [&](const nn::StepMemory& m) {
        return std::to_string(m.largest(nn::room_in(limit)));
      }));
  if (o.trainer.resume) return;  // its batch was chosen and found to fit when it began
  const MeasuredStrategy* own = find(measured, o.recompute);
  if (!o.recompute_auto.empty()) return choose_batch_and_strategy(o, t, limit, group);
  if (o.batch_auto) {
    invariant(own != nullptr, "report_memory: --recompute ", o.recompute, " was not measured");
    return choose_batch(o, t, *own, limit, group);
  }
  if (!own || (own->memory && own->memory->peak(o.batch) <= limit)) return;
  const int64_t rows = o.batch * ranks_of_batch(o);  // as the user has named them
  fail("--batch ", rows, ": a step with --recompute ", o.recompute, " is predicted to take more than the ",
       in_mib(double(limit)), " MiB that there are",
       o.memory_limit.empty() ? " (--memory-limit sets another limit)" : "",
       what_fits(measured, o.recompute, o.batch, t.smallest, limit, ranks_of_batch(o)));
}

}  // namespace reprise::apps
