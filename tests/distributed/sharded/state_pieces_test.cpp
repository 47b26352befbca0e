// The state that rank 0 is sent: in messages of 16 MiB at most, with the bits of one process.
// labels: slow, concurrency
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "reprise/autograd/ops.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::distributed {
namespace {

constexpr int64_t in = 2000, out = 5000;  // 40 MB of momentum, of which rank 1 has about half

std::string state_of(ProcessGroup& group) {
  manual_seed(3);
  nn::Linear layer(in, out);
  DataParallel parallel(layer, group);
  ShardedSgd optimizer(parallel, optim::decay_matrices(layer, 1e-2, 0),
                       {.stage = 1, .sgd = {.momentum = 0.9}});
  for (const int64_t g : parallel.share(2)) {
    manual_seed(uint64_t(g));
    parallel.backward(square(layer(randn({1, in}))).mean(), g);
  }
  optimizer.step();
  std::string lines;
  for (const auto& [name, x] : optimizer.state_dict())
    if (group.rank() == 0) lines += name + ' ' + testing::checksum(x) + '\n';
  return lines;
}

TEST(StatePieces, AreOfSixteenMebibytes) {
  const testing::TempFolder folder;
  const std::string want = state_of(*ProcessGroup::alone());
  const auto got = testing::run_ranks(testing::Ranks::threads, 2, [&](ProcessGroup& group) {
    group.record_to(folder.path());
    const std::string state = state_of(group);
    group.write_calls("the test");
    return state;
  });
  EXPECT_EQ(got[0], want);
  std::ifstream calls(folder / "rank-1.jsonl");
  int sends = 0;
  int64_t elements = 0;
  for (std::string line; std::getline(calls, line);) {
    if (line.find("\"operation\":\"send\"") == std::string::npos) continue;
    const int64_t count = std::stoll(line.substr(line.find("\"shape\":[") + 9));
    EXPECT_LE(4 * count, 16 << 20);
    elements += count;
    ++sends;
  }
  EXPECT_GE(sends, 2);
  EXPECT_GT(4 * elements, 16 << 20) << "of one state";
}

}  // namespace
}  // namespace reprise::distributed
