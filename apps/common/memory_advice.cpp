#include "reprise/apps/common/memory_advice.h"

#include <algorithm>

#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/shared_memory.h"

namespace reprise::apps {
namespace {

// `batch` and `smallest` are of one rank, `--batch` of `ranks` of them. `measure`: what a batch takes.
std::string evaluation_advice(const std::function<nn::StepMemory()>& measure, int64_t batch, Device device,
                              int64_t smallest, const std::string& unchanged, int64_t ranks) {
  try {
    const nn::StepMemory memory = measure();
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
  return nn::measure_strategies(t.model,
                                {.device = device,
                                 .loss = t.loss,
                                 .set_recompute = t.set_recompute,
                                 .smallest = t.smallest,
                                 .sums = sums,
                                 .optimizer = &t.optimizer},
                                own);
}

std::vector<MeasuredStrategy> measure_strategies(const TrainingOptions& o, const TrainedModel& t,
                                                 Device device) {
  if (shares_steps(o, t)) return SharedMemory(o, t, device).measure_strategies(o.recompute);
  const int64_t sums = o.batch_auto ? 1 : gradient_sums(o, own_share(o));  // auto may choose to accumulate
  return measure_strategies(t, device, o.recompute, sums);
}

nn::StepMemory measure_evaluation(const TrainingOptions& o, const TrainedModel& t, Device device) {
  if (shares_steps(o, t)) return SharedMemory(o, t, device).measure_evaluation();
  return nn::measure_evaluation(t.model, device, t.loss, t.smallest);
}

std::string what_fits(const std::vector<MeasuredStrategy>& measured, const std::string& own, int64_t batch,
                      int64_t smallest, size_t limit, int64_t ranks) {
  return nn::in_words(nn::fitting_steps(measured, own, batch, smallest, limit),
                      {.recompute = "--recompute ", .batch = "--batch ", .ranks = ranks});
}

std::string step_advice(const AdviceCase& asked, const TrainedModel& t) {
  const std::vector<MeasuredStrategy> measured = asked.measure(t);
  const size_t memory = nn::memory_for_tensors(asked.device),
               windows = asked.windows_to_come ? asked.windows_to_come(gradient_bytes(t.optimizer)) : 0,
               limit = memory - std::min(memory, windows);
  return "; " + nn::predicted_step(measured, asked.batch, t.row, limit) +
         what_fits(measured, asked.recompute, asked.batch, t.smallest, limit, asked.ranks);
}

int64_t ranks_of_batch(const TrainingOptions& o) { return o.is_cut ? rank_count() : 1; }

AdviceCase advice_case(const TrainingOptions& o, Device device, const distributed::ProcessGroup& group) {
  return {
      .recompute = o.recompute,
      .batch = o.batch,
      .device = device,
      .ranks = ranks_of_batch(o),
      .measure = [o, device](const TrainedModel& t) { return measure_strategies(o, t, device); },
      .measure_evaluation = [o, device](const TrainedModel& t) { return measure_evaluation(o, t, device); },
      .windows_to_come =
          [o, device, &group](size_t gradients) {
            const size_t all = window_bytes(o, gradients, device, group.size());
            // Those that are there are in what is measured.
            return all - std::min(all, group.window_bytes());
          }};
}

void fail_with_advice(const train::OutOfMemoryIn& refused, const AdviceCase& asked,
                      const std::function<TrainedModel()>& trained) {
  if (refused.phase() != train::Phase::step && refused.phase() != train::Phase::evaluation)
    fail(refused.what());
  const TrainedModel t = trained();
  t.model.zero_grad();
  if (refused.phase() == train::Phase::step) fail(refused.what(), step_advice(asked, t));
  const auto measure = [&] { return asked.measure_evaluation(t); };
  fail(refused.what(), evaluation_advice(measure, asked.batch, asked.device, t.smallest,
                                         "; evaluation takes as much with any --recompute", asked.ranks));
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
  const auto measure = [&] { return nn::measure_evaluation(model, device, loss); };
  fail(refused.what(), evaluation_advice(measure, batch, device, 1, "", 1));
}

}  // namespace reprise::apps
