// --ranks on the device cuda: two processes with a device of the emulator's each have the bits of one, at each stage of ZeRO.
// labels: end-to-end, cuda
#include <fmt/core.h>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

class EmulatedRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!distributed::has_gloo() || !distributed::has_nccl()) GTEST_SKIP() << "this build lacks Gloo or NCCL";
    setenv("REPRISE_EMULATOR_DEVICES", "2", 1);
  }
  void TearDown() override { unsetenv("REPRISE_EMULATOR_DEVICES"); }

  Arguments arguments(const std::string& out, const Arguments& more) const {
    Arguments all = {"--device", "cuda", "--dropout", "0.1", "--accumulate", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data, folder / out, 2, all);
  }

  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
};

TEST_F(EmulatedRanks, HaveTheBitsOfOneProcess) {
  for (const auto& [precision, stage] : {std::pair{"f32", "0"}, {"bf16", "1"}, {"bf16-pure", "2"}}) {
    const std::string name = precision;
    const std::string one = testing::run(arguments(name + "1", {"--precision", precision}));
    EXPECT_EQ(one.find("Ranks:"), std::string::npos) << one;
    const std::string two =
        testing::run(arguments(name + "2", {"--precision", precision, "--ranks", "2", "--zero", stage}));
    EXPECT_NE(two.find("Ranks: 2 by --ranks, over NCCL and Gloo"), std::string::npos) << two;
    EXPECT_EQ(one.find("NCCL's windows"), std::string::npos) << one;
    EXPECT_EQ(two.find("NCCL's windows") != std::string::npos, stage != std::string("2")) << two;
    expect_same_checkpoints(folder / (name + "2"), folder / (name + "1"));
    EXPECT_EQ(measurements(folder / (name + "2")), measurements(folder / (name + "1"))) << name;
  }
}

// The number of MiB before some words.
double number_before(const std::string& text, const std::string& words) {
  const size_t end = text.find(words);
  if (end == std::string::npos) return -1;
  return std::atof(text.c_str() + text.find_last_of(' ', end - 1));
}

// Two ranks with as many micro-batches each as the one process.
TEST_F(EmulatedRanks, PlansHaveTheirWindowsInThem) {
  const auto with = [&](const std::string& ranks, const std::string& budget) {
    return train_arguments(
        data, folder / ("windows" + ranks + budget), 1,
        {"--device", "cuda", "--width", "96", "--layers", "4", "--batch", "1", "--eval-every", "0", "--ranks",
         ranks, "--accumulate", ranks, "--recompute", "auto:" + budget, "--sample-every", "0"});
  };
  const std::string one = testing::run(with("1", "50%")), two = testing::run(with("2", "50%"));
  const double windows = number_before(two, " in NCCL's windows"),
               predicted = number_before(two, " MiB of the 50% it may take"),
               alone = number_before(one, " MiB of the 50% it may take");
  EXPECT_GT(windows, 1.5) << two;
  EXPECT_NEAR(predicted - alone, windows, 0.1) << one << two;
  const std::string enough_alone = std::to_string(alone + 0.5 * windows) + "MiB";
  testing::run(with("1", enough_alone));
  Program refused(with("2", enough_alone));
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_NE(refused.err().find("is below the minimum"), std::string::npos) << refused.err();
}

// A budget that is given is for all that a step holds.
TEST_F(EmulatedRanks, BatchesAreChosenWithoutTheRoomOfWindows) {
  const std::string printed = testing::run(
      train_arguments(data, folder / "chosen", 1,
                      {"--device", "cuda", "--ranks", "2", "--width", "96", "--context", "4", "--batch",
                       "auto", "--recompute", "auto:64MiB", "--accumulate", "1", "--eval-every", "0"}));
  const double windows = number_before(printed, " in NCCL's windows"),
               most = number_before(printed, " MiB, ");
  EXPECT_GT(windows, 0.4) << printed;
  EXPECT_NEAR(64 - most, windows, 0.06) << printed;
}

// Rank 0 is sent weights and averages from the others' devices, and copies them to the host.
TEST_F(EmulatedRanks, SaveWhatTheyShare) {
  const Arguments options = {"--width", "64", "--ema", "0.9", "--save-every", "1"};
  testing::run(arguments("one", options));
  for (const char* save_async : {"on", "off"}) {
    const std::string two = std::string("two-") + save_async;
    Arguments more = options;
    more.insert(more.end(), {"--ranks", "2", "--zero", "3", "--save-async", save_async});
    testing::run(arguments(two, more));
    expect_same_checkpoints(folder / two, folder / "one");
  }
}

// The device of the other one waits for what never comes.
TEST_F(EmulatedRanks, ThatAreKilledAreNamedWithinSeconds) {
  for (const size_t killed : {0u, 1u}) {
    const std::string out = folder / ("killed" + std::to_string(killed));
    Program program(train_arguments(
        data, out, 1000000, {"--device", "cuda", "--accumulate", "2", "--ranks", "2", "--eval-every", "0"}));
    const std::vector<pid_t> ranks = kill_rank(program, out, killed);
    ASSERT_EQ(ranks.size(), 2u);
    const std::string message =
        fmt::format("[{}] reprise-gpt: rank {} (pid {}) died: its connection closed without a goodbye\n",
                    1 - killed, killed, ranks[killed]);
    EXPECT_NE(program.err().find(message), std::string::npos) << program.err();
  }
}

TEST_F(EmulatedRanks, NeedADeviceEach) {
  expect_refused(arguments("c", {"--ranks", "4"}), {"4 ranks on this machine need a GPU each, and it has 2"});
}

}  // namespace
}  // namespace reprise::apps
