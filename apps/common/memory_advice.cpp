#include "reprise/apps/common/memory_advice.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/apps/common/ranks.h"
#include "reprise/core/bytes.h"

namespace reprise::apps {
namespace {

int64_t largest_batch(const MeasuredStrategy& one, int64_t smallest, size_t limit) {
  return one.memory ? one.memory->largest(nn::room_in(limit)) / smallest * smallest : 0;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// `batch` and `smallest` are of one rank, `--batch` of `ranks` of them.
std::string evaluation_advice(nn::Module& model, int64_t batch, Device device, int64_t smallest,
                              const std::function<Tensor(int64_t rows)>& loss, const std::string& unchanged,
                              int64_t ranks) {
  try {
    const nn::StepMemory memory = nn::measure_evaluation(model, device, loss, smallest);
    const int64_t fits = memory.largest(nn::room_in(nn::memory_for_tensors(device))) / smallest * smallest;
    if (fits >= batch) return unchanged + "; which --batch would have fitted is not known";
    if (fits > 0) return unchanged + reprise::detail::join("; --batch ", fits * ranks, " would fit");
  } catch (const OutOfMemory&) {
  } catch (const std::bad_alloc&) {}
  return unchanged + reprise::detail::join("; not even --batch ", smallest * ranks, " fits");
}

}  // namespace

std::vector<MeasuredStrategy> measure_strategies(const TrainedModel& t, Device device, const std::string& own,
                                                 int64_t sums) {
  const RecomputeStrategy chosen = parse_strategy(own);
  std::vector<std::string> strategies = {"none", "selective", "full"};
  if (chosen.kind != RecomputeStrategy::Kind::automatic &&
      std::ranges::find(strategies, own) == strategies.end())
    strategies.push_back(own);
  const nn::StepMemoryOptions options{.device = device,
                                      .loss = t.loss,
                                      .set_recompute = t.set_recompute,
                                      .smallest = t.smallest,
                                      .sums = sums,
                                      .optimizer = &t.optimizer};
  std::vector<MeasuredStrategy> measured;
  for (const std::string& strategy : strategies) {
    measured.push_back({strategy, {}});
    try {
      measured.back().memory.emplace(nn::measure_step(t.model, options, parse_strategy(strategy)));
    } catch (const OutOfMemory&) {
    } catch (const std::bad_alloc&) {}  // told by the table
  }
  t.set_recompute(chosen);
  return measured;
}

std::string each_strategy(const std::vector<MeasuredStrategy>& measured,
                          const std::function<std::string(const nn::StepMemory&)>& number) {
  std::string text;
  for (const MeasuredStrategy& one : measured) {
    text += text.empty() ? "" : ", ";
    text += (one.memory ? number(*one.memory) : "too much") + " (" + one.strategy + ")";
  }
  return text;
}

std::string what_fits(const std::vector<MeasuredStrategy>& measured, const std::string& own, int64_t batch,
                      int64_t smallest, size_t limit, int64_t ranks) {
  std::vector<std::string> fitting;
  std::string best;
  int64_t own_rows = 0, most_rows = 0;
  size_t least = SIZE_MAX;  // what does not fit takes as much or more, whatever was predicted
  for (const MeasuredStrategy& one : measured)
    if (one.strategy == own && one.memory) least = one.memory->peak(batch);
  for (const MeasuredStrategy& one : measured) {
    const int64_t rows = largest_batch(one, smallest, limit);
    if (rows >= batch && one.memory->peak(batch) < least) fitting.push_back(one.strategy);
    if (one.strategy == own) own_rows = rows;
    if (rows > most_rows) most_rows = rows, best = one.strategy;
  }
  if (own_rows >= batch) own_rows = 0;  // it is predicted to fit, and has not
  if (!fitting.empty())
    return "; --recompute " + listed(fitting) + " would fit" +
           (own_rows > 0 ? reprise::detail::join("; so would --batch ", own_rows * ranks) : std::string());
  if (own_rows > 0)
    return reprise::detail::join(
        "; --batch ", own_rows * ranks, " would fit",
        best != own ? reprise::detail::join(", and --batch ", most_rows * ranks, " with --recompute ", best)
                    : std::string());
  if (most_rows > 0 && most_rows < batch)
    return reprise::detail::join("; --batch ", most_rows * ranks, " with --recompute ", best, " would fit");
  if (most_rows > 0) return unknown_fit;
  return reprise::detail::join("; not even --batch ", smallest * ranks, " fits, with any --recompute");
}

std::string step_advice(const AdviceCase& asked, const TrainedModel& t) {
  const std::vector<MeasuredStrategy> measured =
      measure_strategies(t, asked.device, asked.recompute, asked.sums);
  const size_t limit = nn::memory_for_tensors(asked.device);
  return fmt::format(
             "; a step of {} {}s is predicted to take {} of {} MiB", asked.batch, t.row,
             each_strategy(measured,
                           [&](const nn::StepMemory& memory) { return in_mib(memory.peak(asked.batch)); }),
             in_mib(limit)) +
         what_fits(measured, asked.recompute, asked.batch, t.smallest, limit, asked.ranks);
}

int64_t ranks_of_batch(const TrainingOptions& o) { return o.is_cut ? rank_count() : 1; }

AdviceCase advice_case(const TrainingOptions& o, Device device) {
  return {.recompute = o.recompute,
          .batch = o.batch,
          .sums = gradient_sums(o, own_share(o)),
          .device = device,
          .ranks = ranks_of_batch(o),
          .cannot = o.zero == 3 && rank_count() > 1
                        ? ", as ranks share the weights that a step is measured with (--zero 3)"
                        : ""};
}

void fail_with_advice(const train::OutOfMemoryIn& refused, const AdviceCase& asked,
                      const std::function<TrainedModel()>& trained) {
  if (refused.phase() != train::Phase::step && refused.phase() != train::Phase::evaluation)
    fail(refused.what());
  if (!asked.cannot.empty()) fail(refused.what(), unknown_fit, asked.cannot);
  const TrainedModel t = trained();
  t.model.zero_grad();
  if (refused.phase() == train::Phase::evaluation)
    fail(refused.what(), evaluation_advice(t.model, asked.batch, asked.device, t.smallest, t.loss,
                                           "; evaluation takes as much with any --recompute", asked.ranks));
  fail(refused.what(), step_advice(asked, t));
}

int with_memory_advice_before_steps(const std::function<int()>& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    fail(error.what(),
         "; it ran out outside of the steps, for weights, their state or data, which take as much with any "
         "--recompute and --batch");
  }
}

void fail_in_evaluation(const train::OutOfMemoryIn& refused, nn::Module& model, int64_t batch, Device device,
                        const std::function<Tensor(int64_t rows)>& loss) {
  fail(refused.what(), evaluation_advice(model, batch, device, 1, loss, "", 1));
}

}  // namespace reprise::apps
