// What a run says of its memory before its first step, and the batch that fits.
#include <algorithm>
#include <cstdint>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/core/bytes.h"
#include "reprise/core/memory.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

const MeasuredStrategy* find(const std::vector<MeasuredStrategy>& measured, const std::string& strategy) {
  auto found = std::ranges::find(measured, strategy, &MeasuredStrategy::strategy);
  return found == measured.end() ? nullptr : &*found;
}

// Replaces `key = ...` in the text of a config.toml.
void set_value(std::string& toml, const std::string& key, int64_t value) {
  const size_t begin = toml.find("\n" + key + " = ");
  if (begin == std::string::npos) return;
  const size_t end = toml.find('\n', begin + 1);
  toml.replace(begin + 1, end - begin - 1, key + " = " + std::to_string(value));
}

// `gradients`: bytes of one set of them.
void choose_batch(TrainingOptions& o, const MeasuredStrategy& own, size_t limit, size_t gradients,
                  int64_t smallest, const std::string& row) {
  const int64_t fits = own.memory ? own.memory->largest(nn::room_in(limit)) : 0,
                total = o.batch * o.trainer.accumulate;
  check(fits >= smallest, "--batch auto: not even a batch of ", smallest, " fits into ",
        in_mib(double(limit)), " MiB with --recompute ", own.strategy);
  check(total % smallest == 0, "--batch auto: ", total, ' ', row, "s per update are no multiple of ",
        smallest);
  // Smaller batches are more micro-batches, whose partial sums of gradients are more.
  size_t least = SIZE_MAX;
  for (int64_t rows = std::min(fits, total) / smallest * smallest; rows > 0; rows -= smallest) {
    if (total % rows != 0) continue;
    const int64_t more = std::max<int64_t>(gradient_sums(o, {0, total / rows}) - 1, 0);
    const size_t needed = own.memory->peak(rows) + size_t(more) * gradients;
    if (needed < least) o.batch = rows;
    least = std::min(least, needed);
    if (needed <= nn::room_in(limit)) break;
  }
  check(least <= nn::room_in(limit), "--batch auto: no batch fits into ", in_mib(double(limit)),
        " MiB; of those that divide ", total, ' ', row, "s per update, ", o.batch, " takes least, ",
        in_mib(double(least)), " MiB with the gradients of ", total / o.batch, " micro-batches");
  o.trainer.accumulate = total / o.batch;
  set_value(o.resolved, "batch", o.batch);
  set_value(o.resolved, "accumulate", o.trainer.accumulate);
  train::report("Batch: {} {}s, {} micro-batches per update\n", o.batch, row, o.trainer.accumulate);
}

}  // namespace

void report_memory(TrainingOptions& o, Device device, const TrainedModel& t) {
  t.optimizer.allocate_state();
  const std::vector<MeasuredStrategy> measured =
      measure_strategies(t, device, o.recompute,
                         o.batch_auto ? 1 : gradient_sums(o, own_share(o)));  // auto may choose to accumulate
  const size_t limit = nn::memory_for_tensors(device);
  double weights = 0, gradients = 0;
  for (const Tensor& x : t.model.parameters()) {
    weights += double(x.numel()) * double(size_of(x.dtype()));
    if (x.requires_grad()) gradients += double(x.numel()) * double(size_of(x.grad_dtype()));
  }
  const double state = double(allocator(device).stats().by_category[size_t(MemoryCategory::optimizer)]);
  const int64_t sets = std::max<int64_t>(gradient_sums(o, own_share(o)), 1);
  train::report("Memory: weights {}, gradients {}{}, optimizer {} MiB; per {}: {} MiB\n", in_mib(weights),
                sets > 1 ? fmt::format("{} x ", sets) : "", in_mib(gradients), in_mib(state), t.row,
                each_strategy(measured, [&](const nn::StepMemory& m) {
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
  if (o.batch_auto) {
    check(own, "--batch auto does not go with --recompute ", o.recompute,
          ", which is measured for one batch");
    return choose_batch(o, *own, limit, size_t(gradients), t.smallest, t.row);
  }
  if (!own || (own->memory && own->memory->peak(o.batch) <= limit)) return;
  fail("--batch ", o.batch, ": a step with --recompute ", o.recompute, " is predicted to take more than the ",
       in_mib(double(limit)), " MiB that there are",
       o.memory_limit.empty() ? " (--memory-limit sets another limit)" : "",
       what_fits(measured, o.recompute, o.batch, t.smallest, limit, ranks_of_batch(o)));
}

}  // namespace reprise::apps
