// What a group refuses, and what all ranks are told where their calls differ, or one of them is late or leaves.
#include "reprise/distributed/process_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/distributed/broken_transport.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::run_ranks;
using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Expects that each rank failed with a message that holds all of `parts`.
void expect_all(const std::vector<std::string>& wrong, const std::vector<std::string>& parts) {
  for (size_t rank = 0; rank < wrong.size(); ++rank)
    for (const std::string& part : parts)
      EXPECT_TRUE(has(wrong[rank], part)) << "rank " << rank << ": no \"" << part << "\" in: " << wrong[rank];
}

class Group : public ::testing::TestWithParam<Ranks> {};

TEST_P(Group, MismatchNamesBothCalls) {
  const auto wrong = run_ranks(GetParam(), 4, [](ProcessGroup& group) -> std::string {
    group.barrier();
    const bool other = group.rank() == 2;
    group.all_reduce(ones({other ? 65 : 64}), ReduceOp::sum, other ? "bucket 4" : "bucket 3").wait();
    return "no error";
  });
  expect_all(wrong, {"mismatch: desync at call 2 of group world:", ": all_reduce sum f32 (64,) \"bucket 3\"",
                     ": all_reduce sum f32 (65,) \"bucket 4\"", "call 1 agrees", " of group world"});
  for (const std::string& one : wrong) EXPECT_TRUE(has(one, "rank  2") || has(one, "rank 2")) << one;
}

TEST_P(Group, LateRankIsNamedOnAll) {
  const auto wrong = run_ranks(GetParam(), 4,
                               [](ProcessGroup& group) -> std::string {
                                 if (group.rank() == 2) std::this_thread::sleep_for(4s);
                                 group.all_reduce(ones({3}), ReduceOp::sum, "x").wait();
                                 return "no error";
                               },
                               {.timeout = 1500ms});
  expect_all(wrong, {"late: rank 2 did not make the call in time", "at all_reduce #1 of group world: x"});
}

TEST_P(Group, LastCallOfTheRankAtFaultIsNamedByWhoKnowsIt) {
  const auto wrong = run_ranks(GetParam(), 3,
                               [](ProcessGroup& group) -> std::string {
                                 group.barrier();
                                 group.all_reduce(ones({3})).wait();
                                 if (group.rank() == 2) std::this_thread::sleep_for(4s);
                                 group.barrier();
                                 return "no error";
                               },
                               {.timeout = 1500ms});
  expect_all({wrong[0], wrong[1]},
             {"late: rank 2 did not make the call in time", "at barrier #3 of group world",
              "\n  the last call of rank 2 that is known here: all_reduce #2 of group world"});
  EXPECT_EQ(wrong[2].find("known here"), std::string::npos) << wrong[2];
}

TEST(DistributedErrors, SayWhenTheRankAtFaultWasLastHeard) {
  Failure failure{FailureKind::died, 2, "rank 2 died", 0.24};
  DistributedError::Call call{"all_reduce", 8, "world", ""};
  call.by = 1;
  EXPECT_STREQ(DistributedError(failure, call, 0.5).what(),
               "rank 2 died\n  at all_reduce #8 of group world, after 0.5 s, on rank 1\n"
               "  rank 2 was last heard 0.2 s before");
  call.theirs = "barrier #7 of group world";
  call.record = "r/flight/rank-1.jsonl";
  EXPECT_STREQ(
      DistributedError(failure, call, 0.5).what(),
      "rank 2 died\n  at all_reduce #8 of group world, after 0.5 s, on rank 1\n"
      "  rank 2 was last heard 0.2 s before; its last call that is known here: barrier #7 of group world\n"
      "  calls: r/flight/rank-1.jsonl");
  failure.heard = -1;
  EXPECT_STREQ(DistributedError(failure, call, 0.5).what(),
               "rank 2 died\n  at all_reduce #8 of group world, after 0.5 s, on rank 1\n"
               "  the last call of rank 2 that is known here: barrier #7 of group world\n"
               "  calls: r/flight/rank-1.jsonl");
}

/// Between ranks, be they threads or processes: a file. A rank may come back from a call after all others; one that leaves
/// before that is an error of that call there.
class Signal {
 public:
  explicit Signal(const std::string& name)
      : file_(::testing::TempDir() + name + "." + std::to_string(getpid())) {}
  ~Signal() { std::filesystem::remove(file_); }
  Signal(const Signal&) = delete;

  void give() const { std::ofstream{file_}; }
  void wait() const {
    for (int tries = 0; tries < 2000 && !exists(file_); ++tries) std::this_thread::sleep_for(5ms);
  }

 private:
  std::filesystem::path file_;
};

TEST_P(Group, LeavingWhileOthersWaitIsAnErrorThere) {
  const Signal first("first"), third("third");
  const auto wrong = run_ranks(GetParam(), 3, [&](ProcessGroup& group) -> std::string {
    group.all_reduce(ones({3})).wait();
    if (group.rank() == 1) {
      first.wait();
      third.wait();
      return "well";
    }
    (group.rank() == 0 ? first : third).give();
    group.all_reduce(ones({3})).wait();
    return "no error";
  });
  EXPECT_EQ(wrong[1], "well");
  expect_all({wrong[0], wrong[2]}, {"left: rank 1 left the group after all_reduce #1 of group world; rank ",
                                    " waits in all_reduce #2 of group world", "\n  at all_reduce #2"});
}

// A loop that ends early on one rank. What is told names both steps, also on a rank that makes no call meanwhile.
TEST_P(Group, LeavingEarlyIsToldWithBothSteps) {
  const Signal idle("idle");
  const auto wrong = run_ranks(GetParam(), 4, [&](ProcessGroup& group) -> std::string {
    for (int step = 0; step < 3; ++step) {
      group.set_step(step);
      if (step == 2 && group.rank() == 1) {  // its last call was in the step before
        idle.wait();
        return "well";
      }
      if (step == 2 && group.rank() == 3) {
        idle.give();
        break;
      }
      group.all_reduce(ones({3})).wait();
    }
    for (int tries = 0; tries < 2000 && !group.failure(); ++tries) std::this_thread::sleep_for(5ms);
    return group.failure() ? "told: " + group.failure()->message : "nothing was told";
  });
  EXPECT_EQ(wrong[1], "well");
  const std::string both =
      "rank 1 left the group after all_reduce #2 of group world, at step 1; rank 2 waits in all_reduce #3 of "
      "group world, at step 2";
  expect_all({wrong[2]}, {"left: " + both, "\n  at all_reduce #3", "on rank 2, at step 2"});
  EXPECT_EQ(wrong[3], "told: " + both);
}

// All others find that a rank has gone, each in its own wait.
TEST_P(Group, LeavingIsToldInOneSentence) {
  for (int leaver : {0, 1}) {
    auto told = run_ranks(GetParam(), 5, [&](ProcessGroup& group) -> std::string {
      try {
        group.all_reduce(ones({3})).wait();
        if (group.rank() == leaver) return "";
        group.all_reduce(ones({3})).wait();
      } catch (const DistributedError& error) { return error.failure().message; }
      return "no error";
    });
    told.erase(told.begin() + leaver);
    const std::string sentence =
        detail::join("rank ", leaver, " left the group after all_reduce #1 of group world");
    for (const std::string& one : told) {
      EXPECT_EQ(one, told.front());
      EXPECT_TRUE(leaver == 0 ? one == sentence
                              : one.starts_with(sentence + "; rank ") &&
                                    one.ends_with(" waits in all_reduce #2 of group world"))
          << one;
    }
  }
}

// Who waits for a rank that has left goes on once `finders` have found that, and hears of what others tell only as it tells its own.
class FoundAtOnce final : public testing::BrokenTransport {
 public:
  FoundAtOnce(std::shared_ptr<Transport> base, std::barrier<>& finders)
      : BrokenTransport(std::move(base), testing::Broken::post, 1 << 30, {}), finders_(finders) {}
  Note take(int from, uint64_t tag, Clock::time_point deadline) override {
    try {
      return BrokenTransport::take(from, tag, deadline);
    } catch (const TransportError&) {
      is_finder_ = true;
      finders_.arrive_and_wait();
      throw;
    }
  }
  std::optional<Failure> failure() const override {
    return is_finder_ ? std::nullopt : BrokenTransport::failure();
  }

 private:
  std::barrier<>& finders_;
  std::atomic<bool> is_finder_{false};
};

TEST(GroupOfThreads, LeavingThatTwoFindAtOnceIsToldInOneSentence) {
  std::barrier finders(2);  // the neighbours of rank 1 in the ring
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (const auto& transport : make_thread_transports(4))
    groups.push_back(ProcessGroup::over(std::make_shared<FoundAtOnce>(transport, finders), {.timeout = 20s}));
  std::vector<std::string> told(groups.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < groups.size(); ++r)
    ranks.emplace_back([&, r] {
      if (r == 1) return groups[r]->leave();
      try {
        groups[r]->all_reduce(ones({3})).wait();
      } catch (const DistributedError& error) { told[r] = error.failure().message; }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_TRUE(told[0].starts_with("rank 1 left the group; rank ")) << told[0];
  for (size_t r : {2, 3}) EXPECT_EQ(told[r], told[0]);
}

TEST_P(Group, LeaveWaitsForCallsAndEndsThem) {
  testing::expect_ranks_well(GetParam(), 3, [](ProcessGroup& group) -> std::string {
    Tensor x = ones({100000});
    group.all_reduce(x);
    group.leave();
    if (x.to_vector<float>()[99999] != 3) return "the call did not end";
    try {
      group.barrier();
    } catch (const Error& error) { return has(error.what(), "has left") ? "" : error.what(); }
    return "a call after it";
  });
}

TEST_P(Group, AbortTellsItsReason) {
  const auto wrong = run_ranks(GetParam(), 3, [](ProcessGroup& group) -> std::string {
    if (group.rank() == 2) group.abort("the loss is NaN");
    group.barrier();
    return "no error";
  });
  expect_all(wrong, {"left: rank 2 aborted: the loss is NaN"});
}

TEST_P(Group, FirstFailureEndsAllGroups) {
  const auto wrong = run_ranks(GetParam(), 2, [](ProcessGroup& group) -> std::string {
    auto part = group.subgroup({0, 1}, "part");
    std::string first, second, third;
    auto message = [](auto&& call) -> std::string {
      try {
        call();
      } catch (const DistributedError& error) { return error.what(); }
      return "no error";
    };
    first = message([&] { part->all_reduce(ones({3 + group.rank()})).wait(); });
    second = message([&] { part->barrier(); });
    third = message([&] { group.all_reduce(ones({3})).wait(); });
    return first == second && second == third ? first : first + " | " + second + " | " + third;
  });
  expect_all(wrong, {"desync at call 1 of group part:"});
  for (const std::string& one : wrong) EXPECT_FALSE(has(one, "|")) << one;
}

TEST_P(Group, DestroyedWithCallsInProgressFailsTheOthers) {
  const auto wrong = run_ranks(GetParam(), 2, [](ProcessGroup& group) -> std::string {
    if (group.rank() == 0) {
      group.recv(ones({3}), 1);  // and goes
      return "well";
    }
    std::this_thread::sleep_for(100ms);
    group.barrier();
    return "no error";
  });
  EXPECT_EQ(wrong[0], "well");
  EXPECT_TRUE(has(wrong[1], "left: rank 0 aborted: its group world was destroyed with calls in progress"))
      << wrong[1];
}

TEST_P(Group, ErrorsHaveTheirParts) {
  testing::expect_ranks_well(GetParam(), 2, [](ProcessGroup& group) -> std::string {
    group.barrier();
    try {
      group.all_reduce(ones({3 + group.rank()}), ReduceOp::sum, "w").wait();
    } catch (const DistributedError& error) {
      const bool well = error.kind() == FailureKind::mismatch && error.operation() == "all_reduce" &&
                        error.sequence() == 2 && error.group() == "world" && error.tensor() == "w" &&
                        error.exit_code() == 5;
      return well ? "" : error.what();
    }
    return "no error";
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Group, ::testing::ValuesIn(testing::kinds_of_ranks()),
                         [](const auto& of) { return name_of(of.param); });

TEST(GroupOfOne, IsTheSameWithoutATransport) {
  auto group = ProcessGroup::alone();
  Tensor x = Tensor::from<float>({1, 2, 3}, {3}), out = Tensor::zeros({3});
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max})
    group->all_reduce(x, op).wait();
  group->ring_scatter(out, x).wait();
  EXPECT_TRUE(testing::same_bits(out, x));
  group->reduce_scatter(out.fill_(0), x).wait();
  group->all_gather(out, out).wait();
  group->broadcast(out, 0).wait();
  Tensor there = Tensor::zeros({3});
  group->all_to_all(there, out).wait();
  EXPECT_TRUE(testing::same_bits(there, Tensor::from<float>({1, 2, 3}, {3})));
  EXPECT_EQ(group->gather_text("a"), std::vector<std::string>{"a"});
  group->barrier();
  EXPECT_EQ(group->subgroup({0}, "part")->size(), 1);
}

TEST(GroupOfOne, RefusesBadInputBeforeTheCallCounts) {
  auto group = ProcessGroup::alone();
  Tensor x = ones({4}), y = ones({4});
  const std::vector<std::pair<std::function<void()>, std::string>> bad{
      {[&] { group->all_reduce({}); }, "all_reduce: x is undefined"},
      {[&] {
         group->all_reduce(ones({4, 3}).transpose(0, 1));
       },
       "all_reduce: x f32(3, 4) is not contiguous"},
      {[&] { group->all_reduce(ones({4}, DType::boolean)); }, "all_reduce: bool has no sum"},
      {[&] { group->all_reduce(ones({4}, DType::i64), ReduceOp::mean); }, "all_reduce: the mean of i64"},
      {[&] { group->all_reduce(x, ReduceOp(7)); }, "all_reduce: there is no reduction 7"},
      {[&] { group->all_reduce(ones({4}).set_requires_grad()); }, "all_reduce: x requires grad"},
      {[&] { group->broadcast(x, 1); }, "broadcast: there is no rank 1 among 1"},
      {[&] { group->broadcast(x, -1); }, "broadcast: there is no rank -1"},
      {[&] { group->send(x, 0); }, "send: rank 0 is this one"},
      {[&] { group->recv(x, 0); }, "recv: rank 0 is this one"},
      {[&] { group->send(x, 1); }, "send: there is no rank 1"},
      {[&] { group->recv(x, 1); }, "recv: there is no rank 1"},
      {[&] { group->reduce_scatter(x, ones({5})); }, "reduce_scatter: in has 5 elements"},
      {[&] { group->reduce_scatter(x, ones({4}, DType::f64)); }, "reduce_scatter: in is f64, out is f32"},
      {[&] { group->all_gather(x, ones({5})); }, "all_gather: out has 4 elements"},
      {[&] { group->all_to_all(x, x); }, "all_to_all: in and out overlap"},
      {[&] { group->all_to_all(x, ones({5})); }, "all_to_all: in has 5 elements and out 4"},
      {[&] {
         group->sum_nodes(x, {y, y}, 2);
       },
       "sum_nodes: 2 nodes; this rank's share of 2 leaves has 1"},
      {[&] { group->sum_nodes(x, {ones({5})}, 1); }, "sum_nodes: a node has 5 elements, should have 4"},
      {[&] { group->scatter_nodes(x, {ones({5})}, 1); },
       "scatter_nodes: a node has 5 elements, should have 4"},
      {[&] { group->scatter_nodes(ones({2}), {x}, 1); },
       "scatter_nodes: a node has 4 elements, should have 2"},
      {[&] { group->sum_nodes(x, {}, 0); }, "0 micro-batches"},
      {[&] { group->subgroup({}, "p"); }, "subgroup \"p\""},
      {[&] {
         group->subgroup({0, 0}, "p");
       },
       "ascending"},
      {[&] { group->subgroup({1}, "p"); }, "from 0 to 0"},
      {[&] { ProcessGroup::alone({.timeout = 0ms}); }, "the timeout is 0 ms"},
  };
  for (const auto& [call, words] : bad) expect_error(call, words);
  const Tensor half = ones({8});
  expect_error([&] { group->reduce_scatter(half.slice(0, 1, 5), half.slice(0, 0, 4)); },
               "in and out overlap");
  NoGrad guard;
  group->all_reduce(ones({4}).set_requires_grad()).wait();
}

TEST(GroupOfOne, RefusesTwoThreadsAtOnce) {
  auto group = ProcessGroup::alone();
  std::string message;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < 20000; ++i) {
          group->barrier();
          std::lock_guard lock(mutex);
          if (!message.empty()) return;
        }
      } catch (const Error& error) {
        std::lock_guard lock(mutex);
        message = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(has(message, "group world: two threads call groups of this rank at once")) << message;
}

}  // namespace
}  // namespace reprise::distributed
