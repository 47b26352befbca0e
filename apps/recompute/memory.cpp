// reprise-recompute memory: what training takes on a rank of a job, by shapes alone: nothing is computed, and no machine has to
// have that memory.
#include <algorithm>

#include "reprise/apps/common/imagined_rank.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/bytes.h"
#include "reprise/core/no_compute.h"
#include "reprise/distributed/imagined/imagined_group.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/nn/memory/step_memory.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

// Rank 0 in training, as the programs train.
class Rank {
 public:
  Rank(const MemoryCommand& c, const Workload& workload)
      : workload_(workload),
        micro_batches_(c.ranks * c.accumulate),
        group_(distributed::imagined_group(0, c.ranks)),
        model_(seeded_model(workload)),
        parallel_(*model_.module, *group_),
        optimizer_(make_optimizer(c)),
        rank_(parallel_, *optimizer_,
              [this](int64_t rows) { return model_.loss(workload_.batch(0, rows)); }) {}

  const nn::Module& module() const { return *model_.module; }
  /// Of the windows that NCCL would have on GPUs: one for each bucket whose gradients ranks have whole.
  size_t window_bytes() const {
    size_t bytes = 0;
    if (group_->size() == 1 || parallel_.scatters_gradients()) return bytes;
    for (const distributed::Bucket& bucket : parallel_.buckets())
      bytes += size_t(bucket.numel) * size_of(bucket.dtype);
    return bytes;
  }

  StepBytes step(const Prepared& prepared, int64_t rows) {
    set_recompute(model_, prepared);
    return rank_.step(rows, micro_batches_);
  }
  nn::StepMemory measure(const Prepared& prepared, int64_t least) {
    set_recompute(model_, prepared);
    return rank_.measure(least, micro_batches_, Device::cpu(), 0);
  }

 private:
  std::unique_ptr<optim::Optimizer> make_optimizer(const MemoryCommand& c) {
    const std::vector<optim::ParameterGroup> groups = optim::decay_matrices(*model_.module, 1e-3, 0.1);
    if (c.optimizer == "sgd")
      return std::make_unique<distributed::ShardedSgd>(
          parallel_, groups,
          distributed::ShardedSgdOptions{.stage = c.zero,
                                         .sgd = {.momentum = 0.9, .master = master_of(c.storage.master)}});
    return std::make_unique<distributed::ShardedAdamW>(
        parallel_, groups,
        distributed::ShardedAdamWOptions{.stage = c.zero, .adamw = adamw_options(c.storage)});
  }

  const Workload& workload_;
  const int64_t micro_batches_;
  std::unique_ptr<distributed::ProcessGroup> group_;
  Workload::Model model_;
  distributed::DataParallel parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  ImaginedRank rank_;
};

// The largest batch whose step has room in the limit: a step's allocations are lines in the rows.
int64_t largest_batch(Rank& rank, const Prepared& prepared, int64_t least, size_t limit) {
  const size_t room = nn::room_in(limit);
  const nn::StepMemory memory = rank.measure(prepared, 2 * least);
  constexpr int64_t most = int64_t(1) << 20;
  auto fits = [&](int64_t rows) { return rank.step(prepared, rows).peak <= room; };
  const int64_t predicted = std::clamp(memory.largest(room), least, most);
  if (fits(predicted)) return predicted;
  if (!fits(least)) return 0;
  int64_t good = least, bad = predicted;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::string job_of(const MemoryCommand& c, const Workload& workload) {
  std::string text = c.workload.precision;
  if (c.ranks > 1) text += fmt::format("; rank 0 of {}, ZeRO stage {}", c.ranks, c.zero);
  if (c.accumulate > 1) text += fmt::format("; {} micro-batches per update and rank", c.accumulate);
  return fmt::format("{}, {}", workload.to_string(), text);
}

}  // namespace

int run_memory(const MemoryCommand& c) {
  check(c.ranks > 1 || c.zero == 0, "--zero ", c.zero, " shares between ranks: give --ranks too");
  check_storage(c.storage, c.workload.precision);
  check(c.optimizer == "adamw" || c.storage.moments == "f32", "--moments ", c.storage.moments,
        " is for --optimizer adamw, not ", c.optimizer);
  const NoCompute no_compute;
  const std::unique_ptr<Workload> workload = make_workload(c.workload);
  std::vector<Prepared> prepared;
  for (const std::string& strategy : c.recompute) {
    check(strategy.find("offload") == std::string::npos, "--recompute ", strategy,
          ": nothing is computed here, and so nothing offloaded");
    prepared.push_back(prepared_for(with_predictor(strategy, c.workload), *workload));
  }
  const size_t limit = c.memory_limit.empty() ? 0 : parse_bytes(c.memory_limit);
  Rank rank(c, *workload);
  int64_t parameters = 0;
  for (const Tensor& x : rank.module().parameters()) parameters += x.numel();
  train::print("{}\n{} parameters\n\n", job_of(c, *workload), parameters);
  for (size_t i = 0; i < prepared.size(); ++i) {
    const StepBytes step = rank.step(prepared[i], workload->rows);
    auto of = [&](MemoryCategory category) { return format_bytes(step.most[size_t(category)]); };
    if (i == 0)
      train::print(
          "weights {}, gradients {}, optimizer {}, however much is recomputed\n{:<18}{:>14}{:>14}{}\n",
          of(MemoryCategory::parameters), of(MemoryCategory::gradients), of(MemoryCategory::optimizer),
          "recompute", "peak", "activations",
          limit ? fmt::format("{:>22}", "batch in " + c.memory_limit) : "");
    train::print("{:<18}{:>14}{:>14}", c.recompute[i], format_bytes(step.peak),
                 format_bytes(step.activations));
    if (limit) train::print("{:>22}", largest_batch(rank, prepared[i], workload->least_rows, limit));
    train::print("\n");
  }
  train::print(
      "\nTensors as the CPU has them; a GPU's workspaces, those of its libraries and CUDA itself come on "
      "top.\n");
  if (const size_t windows = rank.window_bytes(); windows > 0)
    train::print(
        "On GPUs gradients lie in NCCL's windows, {}, while forward runs too: a peak that is not at "
        "backward's "
        "end is up to that much higher.\n",
        format_bytes(windows));
  return 0;
}

}  // namespace reprise::apps::recompute
