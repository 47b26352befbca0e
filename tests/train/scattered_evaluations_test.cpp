// Evaluations and samples at ZeRO's stage 3: weights and averages are gathered block by block, whichever rank runs the model.
// labels: concurrency
#include <gtest/gtest.h>

#include <bit>
#include <sstream>

#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/io/file.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/train/ranks/dealt_batches.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::Ranks;
using testing::TempFolder;

const nn::GptOptions gpt{.vocab_size = 60, .context = 16, .layers = 4, .heads = 2, .width = 80};
constexpr int64_t block = 4 * (12 * 80 * 80 + 13 * 80);  // bytes of its weights

// A run, and the bytes of weights that its looks at the model take at most, beyond what a rank keeps.
struct Run {
  nn::Gpt model;
  distributed::DataParallel parallel;
  distributed::ShardedAdamW optimizer;
  std::optional<optim::Ema> ema{};
  int64_t most = 0, losses = 0;

  Run(ProcessGroup& group, int stage)
      : model(gpt),
        parallel(model, group),
        optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = stage}) {
    const distributed::WholeWeights whole(parallel);
    ema.emplace(model, 0.5);
  }

  template <class Look>
  auto measured(const Look& look) {
    Allocator& memory = allocator(Device::cpu());
    constexpr auto weights = size_t(MemoryCategory::parameters);
    memory.reset_peaks();
    const nn::EvalScope scope(model);
    auto result = look();
    int64_t own = 0;
    for (size_t i = 0; i < parallel.leaves().size(); ++i) {
      const auto* scattered = parallel.scattered_weights();
      own += (scattered && scattered->has(i) ? scattered->own(i) : parallel.leaves()[i]).numel();
    }
    most = std::max(most, int64_t(memory.stats().peak_by_category[weights]) - 4 * own);
    return result;
  }

  Tensor loss(int64_t seed, int64_t rows) {
    const Tensor ids = testing::random_tokens({rows, 16}, 60, uint64_t(seed));
    return cross_entropy(model(ids), ids);
  }
  // Of batches that two ranks do not have alike: three, and one of them runs no model.
  Validation validation(bool whole) {
    return measured([&] {
      ++losses;
      const std::vector<double> sums =
          sums_of_batches(parallel, whole ? 5 : 3, 1, [&](int64_t batch) -> std::vector<double> {
            return {batch == 1 ? 1.0 : loss(1000 + batch, 1 + batch % 2).item()};
          });
      return Validation(sums[0]);
    });
  }
  std::string sample() {
    return measured([&] { return std::to_string(loss(7, 3).item()) + std::to_string(loss(8, 1).item()); });
  }
};

// On rank 0 what was seen; what a rank took.
std::string train_on(ProcessGroup& group, int stage, const std::string& folder) {
  manual_seed(5);
  Run run(group, stage);
  Task task{.model = run.model,
            .optimizer = run.optimizer,
            .ema = &*run.ema,
            .units_per_step = 1,
            .loss = [&](int64_t step, int64_t g) { return run.loss(100 * step + g, 2); },
            .validation_loss = [&](bool whole) { return run.validation(whole); },
            .sample = [&] { return run.sample(); }};
  const TrainingResult result = train(task,
                                      {.run_folder = folder,
                                       .schedule = {.lr = 1e-2, .steps = 3, .decay = optim::Decay::constant},
                                       .accumulate = 2,
                                       .eval_every = 1,
                                       .sample_every = 1},
                                      run.parallel);
  const bool is_hollow = run.model.at<nn::Linear>("h.1.attn.qkv").weight.is_hollow();
  return detail::join(std::bit_cast<uint64_t>(result.validation_loss), ' ', run.losses, ' ', run.most, ' ',
                      is_hollow);
}

TEST(ScatteredEvaluations, HaveABlockAndTheBitsOfOneProcess) {
  TempFolder one;
  std::istringstream of_one(train_on(*ProcessGroup::alone(), 0, one / "run"));
  uint64_t want = 0;
  of_one >> want;
  for (const Ranks kind : testing::kinds_of_ranks()) {
    TempFolder folder;
    const auto told =
        testing::run_ranks(kind, 2, [&](ProcessGroup& group) { return train_on(group, 3, folder / "run"); });
    for (size_t rank = 0; rank < 2; ++rank) {
      std::istringstream numbers(told[rank]);
      uint64_t loss = 0;
      int64_t losses = 0, most = -1;
      bool is_hollow = false;
      numbers >> loss >> losses >> most >> is_hollow;
      EXPECT_EQ(loss, want) << told[rank];
      EXPECT_EQ(losses, 3) << told[rank];
      EXPECT_TRUE(is_hollow) << "what ranks share stays so";
      if (kind != Ranks::gloo) continue;  // others share an allocator
      EXPECT_EQ(most, block) << "rank " << rank << ": " << told[rank];
    }
    EXPECT_EQ(io::read_file(folder / "run/samples.txt"), io::read_file(one / "run/samples.txt"));
  }
}

}  // namespace
}  // namespace reprise::train
