// One rank of a training fails: what it says is told on all others, which name it.
// labels: concurrency
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/memory.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/distributed/broken_transport.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::TempFolder;

constexpr int ranks = 3, at_fault = 1;
constexpr int64_t failing_step = 2;

struct Net : nn::Module {
  Net() { register_module("linear", linear); }
  nn::Linear linear{4, 2};
};

/// What a micro-batch of the rank at fault does with its loss.
using Fault = std::function<Tensor(Net& net, const Tensor& loss)>;

// As the programs do: what ends this rank is told to the others. What it was.
std::string train_on(ProcessGroup& group, const Fault& fault, const std::string& folder) {
  Net net;
  optim::AdamW optimizer(net.parameters(), optim::AdamWOptions{});
  auto loss = [&](int64_t step, int64_t) {
    const Tensor mean = net.linear(Tensor::zeros({3, 4}).fill_(1)).mean();
    return group.rank() == at_fault && step == failing_step ? fault(net, mean) : mean;
  };
  Task task{
      .model = net, .optimizer = optimizer, .units_per_step = 1, .loss = loss, .validation_loss = [](bool) {
        return 1.0;
      }};
  const TrainerOptions options{.run_folder = folder,
                               .schedule = {.lr = 1e-2, .steps = 5, .decay = optim::Decay::constant},
                               .accumulate = ranks};
  try {
    // A bucket of each parameter: some are on their way where a later one fails.
    distributed::DataParallel parallel(net, group, {.bytes = 4, .first_bytes = 4});
    train(task, options, parallel);
  } catch (const distributed::DistributedError& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  } catch (const std::exception& error) {
    group.abort(error.what());
    return error.what();
  }
  return "no error";
}

// What each rank ends with.
std::vector<std::string> told_by(const Fault& fault, std::vector<std::unique_ptr<ProcessGroup>> groups =
                                                         distributed::make_thread_groups(ranks)) {
  TempFolder folder;
  std::vector<std::string> told(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back(
        [&, rank] { told[rank] = train_on(*groups[rank], fault, rank == 0 ? folder.path() : "nowhere"); });
  for (std::thread& thread : threads) thread.join();
  return told;
}

// Expects `message` on the rank at fault, and on all others with its name.
void expect_told(const Fault& fault, const std::string& message) {
  const std::vector<std::string> told = told_by(fault);
  for (size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_NE(told[rank].find(message), std::string::npos) << "rank " << rank << ": " << told[rank];
    if (rank == at_fault) continue;
    EXPECT_TRUE(told[rank].starts_with("left: rank 1 aborted: ")) << "rank " << rank << ": " << told[rank];
  }
}

// All learn of it at the same step: each says it itself, or by the first that does.
TEST(OneRankFails, ByALossThatIsNotANumber) {
  const auto fault = [](Net&, const Tensor& loss) { return loss * double(INFINITY); };
  for (const std::string& told : told_by(fault))
    EXPECT_NE(
        told.find("train: the loss is inf in micro-batch 1 of rank 1 at step 2; first bad tensor: none"),
        std::string::npos)
        << told;
}

TEST(OneRankFails, ByAThrowInAHook) {
  expect_told(
      [](Net& net, const Tensor& loss) {
        autograd::register_post_accumulate_hook(net.linear.weight,
                                                [] { fail("the hook of this rank has enough"); });
        return loss;
      },
      "the hook of this rank has enough");
}

TEST(OneRankFails, ByALackOfMemory) {
  Allocator& memory = allocator(Device::cpu());
  memory.set_limit(memory.stats().reserved + (size_t(1) << 24));
  expect_told([](Net&, const Tensor&) { return Tensor::zeros({int64_t(1) << 24}); }, "memory");
  memory.set_limit(0);
}

// On the thread of a group or on its own: in the join, in steps and at the end.
TEST(OneRankFails, ByALackOfMemoryInACall) {
  constexpr int step_calls = 50;  // calls of the steps, at least; those of the end follow
  const auto well = [](Net&, const Tensor& loss) { return loss; };
  for (const testing::Broken which :
       {testing::Broken::post, testing::Broken::take, testing::Broken::exchange}) {
    int k = 0;
    for (std::vector<std::string> told; told != std::vector<std::string>(ranks, "no error"); k += 7) {
      told = told_by(
          well, testing::make_groups_with_broken(ranks, at_fault, which, k, [] { throw std::bad_alloc(); }));
      if (told[at_fault] == "no error") continue;
      EXPECT_TRUE(told[at_fault] == "std::bad_alloc" ||
                  told[at_fault] == "training step: out of memory that no tensor holds" ||
                  told[at_fault].starts_with("saving: out of memory that no tensor holds"))
          << "call " << k << ": " << told[at_fault];
      for (size_t rank : {0, 2}) {
        if (k > step_calls && told[rank] == "no error") continue;  // it had made its last call before
        EXPECT_TRUE(told[rank].starts_with("left: rank 1 failed in ")) << "call " << k << ": " << told[rank];
        EXPECT_NE(told[rank].find(": out of memory"), std::string::npos) << told[rank];
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(k, step_calls);
  }
}

TEST(OneRankFails, ByAnExceptionOfTheStandardLibrary) {
  expect_told([](Net&, const Tensor&) -> Tensor { throw std::runtime_error("no such batch"); },
              "no such batch");
}

}  // namespace
}  // namespace reprise::train
