// Evaluation over ranks: each batch is one rank's, the sums have the bits of a plain loop, and what happens on one rank ends all.
// labels: concurrency
#include "reprise/train/ranks/dealt_batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>

#include "reprise/nn/linear.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/train/interrupt.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::Ranks;
using testing::run_ranks;

// Of unlike sizes, so that sums depend on the order.
std::vector<double> numbers_of(int64_t batch) {
  return {std::sin(double(1 + batch)) * std::pow(10.0, double(batch % 5)), 1 / double(3 + batch)};
}

TEST(DealtBatches, SumsHaveTheBitsOfALoop) {
  for (const int64_t batches : {0, 1, 2, 3, 7, 8, 13}) {
    std::vector<double> want(2), backward(2);
    for (int64_t batch = 0; batch < batches; ++batch)
      for (size_t i = 0; i < 2; ++i) {
        want[i] += numbers_of(batch)[i];
        backward[i] += numbers_of(batches - 1 - batch)[i];
      }
    EXPECT_TRUE(batches < 7 || want != backward) << "the order should tell";
    for (const int ranks : {1, 2, 3, 4}) {
      std::vector<std::atomic<int>> asked(static_cast<size_t>(batches));
      testing::expect_ranks_well(Ranks::threads, ranks, [&](ProcessGroup& group) -> std::string {
        nn::Linear model(2, 2);
        distributed::DataParallel parallel(model, group);
        const std::vector<double> got = sums_of_batches(parallel, batches, 2, [&](int64_t batch) {
          EXPECT_EQ(batch % ranks, group.rank());
          ++asked[size_t(batch)];
          return numbers_of(batch);
        });
        return got == want ? ""
                           : detail::join(batches, " batches on ", ranks, " ranks: ", got[0], ", ", got[1]);
      });
      for (const std::atomic<int>& times : asked) EXPECT_EQ(times, 1);
    }
  }
}

TEST(DealtBatches, AnErrorOnOneRankIsToldToAll) {
  for (const Ranks kind : testing::kinds_of_ranks()) {
    const auto told = run_ranks(kind, 3, [](ProcessGroup& group) -> std::string {
      nn::Linear model(2, 2);
      distributed::DataParallel parallel(model, group);
      try {
        sums_of_batches(parallel, 9, 1, [](int64_t batch) {
          check(batch != 4, "batch ", batch, " cannot be read");
          return std::vector<double>{1};
        });
      } catch (const distributed::DistributedError&) { throw; } catch (const Error& error) {
        group.abort(error.what());  // as the programs do
        throw;
      }
      return "no error";
    });
    EXPECT_EQ(told[1], "Error: batch 4 cannot be read");
    for (const size_t rank : {0, 2})
      EXPECT_TRUE(told[rank].starts_with("left: rank 1 aborted: batch 4 cannot be read")) << told[rank];
  }
}

TEST(DealtBatches, ASignalOnOneRankEndsAll) {
  for (const Ranks kind : testing::kinds_of_ranks()) {
    InterruptScope scope;
    const auto told = run_ranks(kind, 2, [](ProcessGroup& group) -> std::string {
      int asked = 0;
      nn::Linear model(2, 2);
      distributed::DataParallel parallel(model, group);
      try {
        sums_of_batches(parallel, 1000, 1, [&](int64_t batch) {
          ++asked;
          if (batch == 3) std::raise(SIGTERM);
          return std::vector<double>{1};
        });
      } catch (const Interrupted&) { return asked <= 3 ? "interrupted" : detail::join(asked, " batches"); }
      return "not interrupted";
    });
    for (const std::string& one : told) EXPECT_EQ(one, "interrupted");
  }
}

}  // namespace
}  // namespace reprise::train
