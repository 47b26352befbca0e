// Saves at ZeRO's stage 3: rank 0 writes weights and averages tensor by tensor, as they are sent to it.
// labels: concurrency
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/errors.h"
#include "reprise/train/finite.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::Ranks;
using testing::TempFolder;

const nn::GptOptions gpt{.vocab_size = 60, .context = 16, .layers = 4, .heads = 2, .width = 80};
constexpr int64_t largest = 4 * 80 * 80;  // elements of a weight
constexpr auto parameters = size_t(MemoryCategory::parameters);

// What the allocator held more, when it held most, than as the file of a name is put in place; and of weights at most.
class PeakAt final : public io::FileCalls {
 public:
  explicit PeakAt(std::string name) : name_(std::move(name)) {}
  int rename(const char* from, const char* to) override {
    if (std::string(to).ends_with(name_)) {
      const MemoryStats stats = allocator(Device::cpu()).stats();
      held_ = std::max(held_, int64_t(stats.peak_held) - int64_t(stats.held));
      of_weights_ = std::max(of_weights_, int64_t(stats.peak_by_category[parameters]));
      ++saves_;
    }
    return FileCalls::rename(from, to);
  }
  std::string text() const { return detail::join(saves_, ' ', held_, ' ', of_weights_); }

 private:
  std::string name_;
  int64_t held_ = 0, of_weights_ = 0, saves_ = 0;
};

// Two steps with a save after each; the peaks of these, and the bytes of the weights that this rank has.
std::string train_with_saves(ProcessGroup& group, int stage, const std::string& folder) {
  manual_seed(5);
  nn::Gpt model(gpt);
  distributed::DataParallel parallel(model, group);
  distributed::ShardedAdamW optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = stage});
  std::optional<distributed::WholeWeights> whole(parallel);
  optim::Ema ema(model, 0.9);
  whole.reset();
  Task task{.model = model,
            .optimizer = optimizer,
            .ema = &ema,
            .units_per_step = 1,
            .loss =
                [&](int64_t step, int64_t g) {
                  const Tensor ids = testing::random_tokens({2, 16}, 60, uint64_t(100 * step + g));
                  return cross_entropy(model(ids), ids);
                },
            .updated = [] { allocator(Device::cpu()).reset_peaks(); },
            // On rank 0, between a step, whose gradients are gone, and its save.
            .notice =
                [] {
                  allocator(Device::cpu()).reset_peaks();
                  return std::string();
                },
            .validation_loss = [](bool) { return 1.0; }};
  PeakAt peaks(group.rank() == 0 ? "/LATEST" : "optimizer-00002-of-00002.safetensors");
  {
    const io::FileCallsScope calls(peaks);
    train(task,
          {.run_folder = folder,
           .schedule = {.lr = 1e-2, .steps = 5, .decay = optim::Decay::constant},
           .accumulate = 2,
           .eval_every = 0,
           .save_every = 1,
           .stop_after = 2,
           .save_async = false},
          parallel);
  }
  int64_t own = 0;
  for (size_t i = 0; i < parallel.leaves().size(); ++i) {
    const auto* scattered = parallel.scattered_weights();
    own += (scattered && scattered->has(i) ? scattered->own(i) : parallel.leaves()[i]).numel();
  }
  return detail::join(peaks.text(), ' ', 4 * own);
}

TEST(ScatteredSaves, TakeRoomForOneTensor) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  TempFolder folder;
  const std::string run = folder / "run";
  const std::vector<std::string> told = testing::run_ranks(
      Ranks::gloo, 2, [&](ProcessGroup& group) { return train_with_saves(group, 3, run); });
  for (size_t rank = 0; rank < 2; ++rank) {
    std::istringstream numbers(told[rank]);
    int64_t saves = 0, held = -1, of_weights = -1, own = 0;
    numbers >> saves >> held >> of_weights >> own;
    EXPECT_EQ(saves, 2) << told[rank];
    EXPECT_EQ(of_weights, own) << "rank " << rank << ": " << told[rank];
    if (rank > 0) continue;
    EXPECT_GE(held, 4 * largest) << told[rank];
    EXPECT_LE(held, 4 * largest + 16384) << told[rank];
  }
  TempFolder one;
  train_with_saves(*ProcessGroup::alone(), 0, one / "run");
  for (const char* name : {"model.safetensors", "ema.safetensors"})
    for (const char* step : {"/checkpoints/step-00000001/", "/checkpoints/step-00000002/"})
      EXPECT_TRUE(io::read_file(run + step + name) == io::read_file(one / "run" + step + name))
          << step << name;
}

// Each rank looks at what it has.
TEST(ScatteredSaves, NameAWeightThatIsNotFinite) {
  const auto told = testing::run_ranks(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    nn::Gpt model(gpt);
    distributed::DataParallel parallel(model, group);
    const distributed::ShardedAdamW optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1),
                                              {.stage = 3});
    const distributed::SharedTensors shared(parallel);
    const Checkpoint checkpoint{.parameters = model.state_dict(), .shared = &shared};
    if (first_bad_tensor(checkpoint)) return "all are finite";
    for (const auto& [name, own] : shared.own())
      if (group.rank() == 1 && name == "h.2.mlp.fc1.weight") own.fill_(INFINITY);
    return first_bad_tensor(checkpoint).value_or("none");
  });
  EXPECT_EQ(told, std::vector<std::string>({"none", "h.2.mlp.fc1.weight"}));
}

TEST(ScatteredSaves, GiveTensorsThatAreSharedAlone) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    nn::Gpt model(gpt);
    distributed::DataParallel parallel(model, group);
    const distributed::ShardedAdamW optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1),
                                              {.stage = 3});
    const distributed::SharedTensors shared(parallel);
    int calls = 0;
    auto read = [&](const distributed::WholeOf& whole) {
      ++calls;
      const Tensor embedding = model.state_dict()[0].second;
      EXPECT_TRUE(whole(embedding).is_same(embedding));
      whole(Tensor::hollow({nullptr, {2, 3}, {3, 1}, DType::f32, Device::cpu()}));
    };
    auto read_all = [&] { shared.read_on_rank_0(read); };
    if (group.rank() == 0)
      testing::expect_error(read_all, {"a hollow tensor f32(2, 3)", "ranks share"});
    else
      read_all();
    EXPECT_EQ(calls, group.rank() == 0 ? 1 : 0);
    return "";
  });
}

}  // namespace
}  // namespace reprise::train
