// What two ranks may call differently: each is found, by both, within seconds and before a result is used.
#include <gtest/gtest.h>

#include <deque>

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;
using testing::run_ranks;
using namespace std::chrono_literals;

constexpr auto most_time = 15s;  // a second, on a machine that does nothing else

// The tensors of this rank's calls: all ones, and so they stay.
class Tensors {
 public:
  const Tensor& ones(const Shape& shape, DType dtype = DType::f32) {
    made_.push_back(Tensor::zeros(shape, dtype).fill_(1));
    return made_.back();
  }
  bool are_ones() const {
    for (const Tensor& x : made_)
      for (double value : x.to(DType::f64).to_vector<double>())
        if (value != 1) return false;
    return true;
  }

 private:
  std::deque<Tensor> made_;
};

using Calls = std::function<void(ProcessGroup&, Tensors&)>;
struct Difference {
  const char* name;
  Calls mine, theirs;
};

void reduce(ProcessGroup& group, const Tensor& x, const std::string& label = "") {
  group.all_reduce(x, ReduceOp::sum, label).wait();
}

std::vector<Difference> in_one_call() {
  const Calls sum = [](auto& g, auto& t) { reduce(g, t.ones({3})); };
  return {
      {"count", sum, [](auto& g, auto& t) { reduce(g, t.ones({4})); }},
      {"shape",
       [](auto& g, auto& t) {
         reduce(g, t.ones({2, 3}));
       },
       [](auto& g, auto& t) {
         reduce(g, t.ones({3, 2}));
       }},
      {"dtype", sum, [](auto& g, auto& t) { reduce(g, t.ones({3}, DType::i32)); }},
      {"op", sum, [](auto& g, auto& t) { g.all_reduce(t.ones({3}), ReduceOp::mean).wait(); }},
      {"root", [](auto& g, auto& t) { g.broadcast(t.ones({3}), 0).wait(); },
       [](auto& g, auto& t) { g.broadcast(t.ones({3}), 1).wait(); }},
      {"operation", sum, [](auto& g, auto& t) { g.broadcast(t.ones({3}), 0).wait(); }},
      {"label", [](auto& g, auto& t) { reduce(g, t.ones({3}), "a"); },
       [](auto& g, auto& t) { reduce(g, t.ones({3}), "b"); }},
      {"empty", sum, [](auto& g, auto& t) { reduce(g, t.ones({0})); }},
      {"leaves", [](auto& g, auto& t) { g.sum_nodes(t.ones({3}), {t.ones({3})}, 2).wait(); },
       [](auto& g, auto& t) { g.sum_nodes(t.ones({3}), {t.ones({3})}, 4).wait(); }},
      {"order of a scattered sum",
       [](auto& g, auto& t) { g.ring_scatter(t.ones({1}), t.ones({int64_t(g.size())})).wait(); },
       [](auto& g, auto& t) { g.reduce_scatter(t.ones({1}), t.ones({int64_t(g.size())})).wait(); }},
      {"group", sum,
       [](auto& g, auto& t) {
         reduce(*g.subgroup({0, 1}, "part"), t.ones({3}));
       }},
      {"group of one name",
       [](auto& g, auto& t) {
         reduce(*g.subgroup({0, 1}, "part"), t.ones({3}));
       },
       [](auto& g, auto& t) {
         const auto first = g.subgroup({0, 1}, "part"), second = g.subgroup({0, 1}, "part");
         reduce(*second, t.ones({3}));
       }},
  };
}

std::vector<Difference> in_order_and_direction() {
  const Calls send = [](auto& g, auto& t) { g.send(t.ones({3}), 1 - g.rank()).wait(); };
  const Calls receive = [](auto& g, auto& t) { g.recv(t.ones({3}), 1 - g.rank()).wait(); };
  return {
      {"a call more", [](auto& g, auto&) { g.barrier(); },
       [](auto& g, auto& t) {
         g.all_reduce(t.ones({3}));
         g.barrier();
       }},
      {"order",
       [](auto& g, auto& t) {
         g.all_reduce(t.ones({3}));
         g.all_reduce(t.ones({4})).wait();
       },
       [](auto& g, auto& t) {
         g.all_reduce(t.ones({4}));
         g.all_reduce(t.ones({3})).wait();
       }},
      {"order of groups",
       [](auto& g, auto& t) {
         const auto part = g.subgroup({0, 1}, "part");
         reduce(g, t.ones({3}));
         reduce(*part, t.ones({3}));
       },
       [](auto& g, auto& t) {
         const auto part = g.subgroup({0, 1}, "part");
         reduce(*part, t.ones({3}));
         reduce(g, t.ones({3}));
       }},
      {"what is sent", send, [](auto& g, auto& t) { g.recv(t.ones({4}), 0).wait(); }},
      {"both send", send, send},
      {"both receive", receive, receive},
      {"one sends, one sums", send, [](auto& g, auto& t) { reduce(g, t.ones({3})); }},
  };
}

// One rank's part.
std::string call_differently(ProcessGroup& group, const Difference& difference) {
  Tensors tensors;
  const auto begin = Clock::now();
  try {
    (group.rank() == 0 ? difference.mine : difference.theirs)(group, tensors);
  } catch (const DistributedError& error) {
    std::string outcome = detail::join(name_of(error.kind()), ": ", error.what());
    if (!tensors.are_ones()) outcome += " | a result was written";
    if (Clock::now() - begin > most_time) outcome += " | late";
    return outcome;
  }
  return "no error";
}

class Desync : public ::testing::TestWithParam<Ranks> {
 protected:
  void expect_found(const std::vector<Difference>& differences) {
    for (const Difference& difference : differences) {
      const auto outcomes =
          run_ranks(GetParam(), 2, [&](ProcessGroup& group) { return call_differently(group, difference); },
                    {.timeout = 20s});
      for (const std::string& outcome : outcomes) {
        for (const char* part : {"mismatch: desync at call 1 of group ", "\n  rank 0: ", "\n  rank 1: "})
          EXPECT_NE(outcome.find(part), std::string::npos) << difference.name << ": " << outcome;
        EXPECT_EQ(outcome.find(" | "), std::string::npos) << difference.name << ": " << outcome;
      }
      if (HasFailure()) return;  // the next one would take as long
    }
  }
};

TEST_P(Desync, OfOneCallIsFound) { expect_found(in_one_call()); }
TEST_P(Desync, OfOrderAndDirectionIsFound) { expect_found(in_order_and_direction()); }

TEST_P(Desync, NamesTheOtherGroup) {
  const auto outcomes = run_ranks(GetParam(), 2, [](ProcessGroup& group) -> std::string {
    group.barrier();
    const auto part = group.subgroup({0, 1}, "part");
    reduce(group.rank() == 0 ? group : *part, Tensor::zeros({3}));
    return "no error";
  });
  for (const std::string& outcome : outcomes) {
    const bool in_world = outcome.find("desync at call 2 of group world") != std::string::npos;
    const std::string other = in_world ? "rank 1: call 1 of group part: all_reduce sum f32 (3,)"
                                       : "rank 0: call 2 of group world: all_reduce sum f32 (3,)";
    EXPECT_NE(outcome.find(other), std::string::npos) << outcome;
  }
}

// A layout that no call takes is an Error where it is given, and does not count as a call.
TEST_P(Desync, LayoutIsRefusedBeforeTheCallCounts) {
  testing::expect_ranks_well(GetParam(), 2, [](ProcessGroup& group) -> std::string {
    Tensor x = Tensor::zeros({4, 3}).fill_(1);
    std::string told;
    if (group.rank() == 1) try {
        reduce(group, x.transpose(0, 1));
      } catch (const Error& error) { told = error.what(); }
    reduce(group, x);
    if (group.rank() == 1 && told.find("is not contiguous") == std::string::npos)
      return "not refused: " + told;
    return x.to_vector<float>() == std::vector<float>(12, 2) ? "" : "another sum";
  });
}

struct Pair : nn::Module {
  Pair() {
    register_module("first", first);
    register_module("second", second);
  }
  nn::Linear first{3, 3}, second{3, 2};
};

// Models whose gradients would be cut into other buckets, or of which other parameters are trained: on all ranks an Error with
// the first difference, before anything is sent.
TEST_P(Desync, OfBucketsAndTrainedParametersIsFoundAtTheStart) {
  for (const bool buckets : {true, false}) {
    const auto outcomes = run_ranks(GetParam(), 2, [&](ProcessGroup& group) -> std::string {
      Pair model;
      const bool other = group.rank() == 1;
      if (other && !buckets) model.second.weight.set_requires_grad(false);
      const DataParallel parallel(model, group, {.first_bytes = other && buckets ? 4 : 1 << 20});
      return "no error";
    });
    for (const std::string& outcome : outcomes) {
      EXPECT_NE(outcome.find("Error: DataParallel: ranks differ: rank 0 has "), std::string::npos) << outcome;
      EXPECT_NE(
          outcome.find(buckets
                           ? "a bucket of 4 parameters, rank 1 has a bucket of "
                           : "second.weight f32(2, 3) with gradient f32, rank 1 has second.weight f32(2, 3)"),
          std::string::npos)
          << outcome;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Desync, ::testing::ValuesIn(testing::kinds_of_ranks()),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
}  // namespace reprise::distributed
