// A GPT of 4 layers and width 128 that recomputes in the reentrant mode has the bits of one process that recomputes nothing, on
// any ranks and at each stage of ZeRO: SameBitsOnAnyRanks, whose programs recompute in the other mode.
// labels: slow, concurrency
// not in tsan: SameBitsOnAnyRanks.InTheReentrantMode
#include <gtest/gtest.h>

#include <map>

#include "reprise/tests/distributed/sharded/gpt_run.h"

namespace reprise::distributed {
namespace {

using testing::GptRun;
using testing::Way;

constexpr auto reentrant = recompute::CheckpointMode::reentrant;
const nn::GptOptions gpt{.vocab_size = 60, .context = 16, .layers = 4, .heads = 4, .width = 128};

// On rank 0 weights, norms and the optimizer's state after three steps of eight micro-batches.
std::string train(ProcessGroup& group, const Way& way, int stage) {
  GptRun run(group, way, stage, gpt);
  std::string lines;
  for (int step = 0; step < 3; ++step) {
    for (const int64_t g : run.parallel.share(8)) run.parallel.backward(run.loss(step, g), g);
    const double norm = run.optimizer.grad_norm();
    lines += testing::checksum(Tensor::from(std::vector<double>{norm}, {1})) + '\n';
    run.optimizer.step(optim::clip_scale(norm, 1.0));
    run.optimizer.zero_grad();
  }
  lines += run.weights();
  for (const auto& [name, x] : run.optimizer.state_dict())
    if (group.rank() == 0) lines += name + ' ' + testing::checksum(x) + '\n';
  return lines;
}

TEST(SameBitsOnAnyRanks, InTheReentrantMode) {
  std::map<DType, std::string> want;
  for (const DType compute : {DType::f32, DType::bf16})
    want[compute] = train(*ProcessGroup::alone(), {"one", "none", {}, compute}, 0);
  const std::vector<std::string> strategies = {"full", "every:2", "segments:2", "offload"};
  for (size_t q = 0; q < strategies.size(); ++q)
    for (size_t r = 0; r < 4;
         ++r) {  // each strategy meets each number of ranks, each stage and each precision
      const int ranks = 1 << r, stage = int(q + r) % 4;
      const DType compute = (q + r / 2) % 2 ? DType::bf16 : DType::f32;
      const Way way{"reentrant", strategies[q], reentrant, compute};
      const auto got = testing::run_ranks(testing::Ranks::threads, ranks,
                                          [&](ProcessGroup& group) { return train(group, way, stage); });
      EXPECT_EQ(got[0], want[compute]) << ranks << " ranks, " << way.strategy << ", stage " << stage;
    }
}

}  // namespace
}  // namespace reprise::distributed
