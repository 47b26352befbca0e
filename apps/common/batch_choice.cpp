#include "reprise/apps/common/batch_choice.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/core/bytes.h"
#include "reprise/nn/memory/fastest_batch.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

// Replaces `key = ...` in the text of a config.toml.
void set_value(std::string& toml, const std::string& key, const std::string& value) {
  const size_t begin = toml.find("\n" + key + " = ");
  if (begin == std::string::npos) return;
  const size_t end = toml.find('\n', begin + 1);
  toml.replace(begin + 1, end - begin - 1, key + " = " + value);
}

void take(TrainingOptions& o, const BatchChoice& chosen) {
  o.batch = chosen.batch;
  o.trainer.accumulate = chosen.accumulate;
  o.recompute = chosen.recompute;
  set_value(o.resolved, "batch", std::to_string(o.batch));
  set_value(o.resolved, "accumulate", std::to_string(o.trainer.accumulate));
  set_value(o.resolved, "recompute", '"' + o.recompute + '"');  // no strategy has a character to escape
}

// Of an update, those of each rank.
int64_t rows_of_rank(const TrainingOptions& o, const TrainedModel& t) {
  const int64_t total = o.batch * o.trainer.accumulate, rows = total / rank_count();
  check(rows % t.smallest == 0, "--batch auto: ", total, ' ', t.row, "s per update",
        rank_count() > 1 ? fmt::format(", {} per rank,", rows) : "", " are no multiple of ", t.smallest);
  return rows;
}

std::string described(const BatchChoice& chosen, const std::string& row) {
  return fmt::format("Batch: {} {}s, {} micro-batches per update", chosen.batch, row, chosen.accumulate);
}

// "; then 12 with none 88.0, 24 with full 80.3"
std::string next_of(const std::vector<nn::TimedBatch>& timed, const nn::TimedBatch& chosen) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0, told = 0; i < timed.size() && told < most; ++i) {
    const nn::TimedBatch& one = timed[i];
    if (one.rows == chosen.rows && one.strategy == chosen.strategy) continue;
    text += fmt::format("{} {} with {} {:.1f}", told++ == 0 ? "; then" : ",", one.rows, one.strategy,
                        one.rows_per_second());
  }
  return text;
}

[[noreturn]] void fail_to_fit(const std::string& options, size_t limit, int64_t total, const std::string& row,
                              const std::string& least, size_t needed, const std::string& with) {
  fail(options, ": no batch fits into ", in_mib(double(limit)), " MiB; of those that divide ", total, ' ',
       row, "s per update, ", least, " takes least, ", in_mib(double(needed)), " MiB", with);
}

}  // namespace

BatchChoice of_first_rank(const BatchChoice& own, distributed::ProcessGroup& group) {
  BatchChoice first;
  std::istringstream text(
      group.gather_text(fmt::format("{} {} {}", own.batch, own.accumulate, own.recompute)).front());
  text >> first.batch >> first.accumulate >> std::ws;
  std::getline(text, first.recompute);
  return first;
}

recompute::Plan of_first_rank(const recompute::Plan& own, distributed::ProcessGroup& group) {
  return recompute::parse_plan(group.gather_text(to_string(own)).front());
}

void choose_batch(TrainingOptions& o, const TrainedModel& t, const MeasuredStrategy& own, size_t limit,
                  distributed::ProcessGroup& group) {
  const size_t gradients = gradient_bytes(t.optimizer);
  const int64_t fits = own.memory ? own.memory->largest(nn::room_in(limit)) : 0, smallest = t.smallest,
                total = o.batch * o.trainer.accumulate;
  check(fits >= smallest, "--batch auto: not even a batch of ", smallest, " fits into ",
        in_mib(double(limit)), " MiB with --recompute ", own.strategy);
  const int64_t share = rows_of_rank(o, t);
  // Smaller batches are more micro-batches, whose partial sums of gradients are more.
  BatchChoice chosen{.recompute = o.recompute};
  size_t least = SIZE_MAX;
  for (int64_t rows = std::min(fits, share) / smallest * smallest; rows > 0; rows -= smallest) {
    if (share % rows != 0) continue;
    const int64_t more = std::max<int64_t>(most_gradient_sums(o, total / rows) - 1, 0);
    const size_t needed = own.memory->peak(rows) + size_t(more) * gradients;
    if (needed < least) chosen.batch = rows;
    least = std::min(least, needed);
    if (needed <= nn::room_in(limit)) break;
  }
  chosen.accumulate = total / chosen.batch;
  if (least > nn::room_in(limit))
    fail_to_fit("--batch auto", limit, total, t.row, std::to_string(chosen.batch), least,
                fmt::format(" with the gradients of {} micro-batches", chosen.accumulate));
  chosen = of_first_rank(chosen, group);
  take(o, chosen);
  train::report("{}\n", described(chosen, t.row));
}

void choose_batch_and_strategy(TrainingOptions& o, const TrainedModel& t, size_t limit,
                               distributed::ProcessGroup& group) {
  const std::string options = "--batch auto --recompute " + o.recompute_auto;
  const size_t given = o.recompute_auto == "auto" ? 0 : parse_strategy(o.recompute_auto).memory_budget;
  const size_t windows = window_bytes(o, gradient_bytes(t.optimizer), group.device(), group.size()),
               room = nn::room_in(limit),
               most = given > 0 ? std::min(given - std::min(given, windows), room) : room;
  check(given == 0 || given > windows, options, ": NCCL's windows alone take ", in_mib(double(windows)),
        " MiB");
  const int64_t ranks = rank_count();
  const nn::TrainingStepCase step{.model = t.model,
                                  .loss = t.loss,
                                  .blocks = t.blocks,
                                  .optimizer = &t.optimizer,
                                  .rows = t.smallest,
                                  .smallest = t.smallest,
                                  .budget = limit,
                                  .set_recompute = t.set_recompute};
  // Timed with weights and gradients whole, which each rank does for itself.
  std::optional<distributed::WholeWeights> whole;
  nn::FastestBatchOptions from{
      .plans = true,
      .rows_per_update = rows_of_rank(o, t),
      .sums = [&](int64_t micro_batches) { return most_gradient_sums(o, micro_batches * ranks); },
      .most_bytes = most};
  if (shares_steps(o, t)) {
    try {
      whole.emplace(*t.parallel);
    } catch (const OutOfMemory&) {
      fail(options,
           ": steps are timed with weights whole, which do not fit; give --batch, and a strategy to "
           "--recompute");
    }
    from.measure = [&](const RecomputeStrategy& strategy, int64_t sums) {
      return SharedMemory(o, t, group.device()).measure_sums(strategy, sums);
    };
  }
  std::vector<nn::TimedBatch> timed;
  try {
    timed = nn::fastest_batches(step, from);
    if (timed.empty()) {
      const nn::TimedBatch least = nn::least_batch(step, from);
      fail_to_fit(options, most, o.batch * o.trainer.accumulate, t.row,
                  fmt::format("{} with --recompute {}", least.rows, least.strategy), least.peak, "");
    }
  } catch (const OutOfMemory&) {
    fail(options, ": not even a batch of ", t.smallest, " fits into ", in_mib(double(limit)),
         " MiB, with any --recompute");
  }
  const nn::TimedBatch& fastest = timed.front();
  const BatchChoice chosen = of_first_rank(
      {.batch = fastest.rows, .accumulate = fastest.micro_batches * ranks, .recompute = fastest.strategy},
      group);
  take(o, chosen);
  t.set_recompute(parse_strategy(o.recompute));
  train::report("{}, --recompute {}: {} of {} MiB, {:.1f} {}s per second{}\n", described(chosen, t.row),
                chosen.recompute, in_mib(double(fastest.peak)), in_mib(double(most)),
                fastest.rows_per_second(), t.row, next_of(timed, fastest));
}

}  // namespace reprise::apps
