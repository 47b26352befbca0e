// Stopping and going on: the same bits as a run that never stopped, however it was stopped.
// labels: end-to-end
#include <filesystem>
#include <functional>

#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Resume : public ::testing::TestWithParam<Arguments> {};

TEST_P(Resume, AfterAnyStepGivesTheBitsOfAnUninterruptedRun) {
  constexpr int steps = 6;
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), whole = folder / "whole";
  run(train_arguments(data, whole, steps, GetParam()));
  std::vector<std::string> want = measurements(whole);
  EXPECT_EQ(want.size(), 3u * steps + 2 * 3) << "loss, rate and norm per step; losses over the held-out "
                                                "split and the weights' checksums beside them";
  for (int k = 1; k < steps; ++k) {
    std::string part = folder / std::to_string(k);
    Arguments arguments = train_arguments(data, part, steps, GetParam());
    run(with(arguments, {"--stop-after", std::to_string(k)}));
    EXPECT_EQ(train::load_checkpoint(part, true).step, k);
    run(with(arguments, {"--resume"}));
    expect_same_checkpoints(part, whole);
    EXPECT_EQ(measurements(part), want) << "stopped after " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Options, Resume,
                         ::testing::Values(Arguments{}, Arguments{"--accumulate", "2", "--save-every", "2"},
                                           Arguments{"--ema", "0.9"},
                                           Arguments{"--dropout", "0.1", "--no-bias"}),
                         [](const auto& test) {
                           return std::string(test.param.empty() ? "plain" : test.param[0].substr(2));
                         });

TEST(ResumeTwice, StopsAndGoesOnThroughMetricsThatWereWrittenAhead) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  Arguments options = {"--dropout", "0.1", "--ema", "0.5", "--accumulate", "2"};
  run(train_arguments(data, folder / "whole", 6, options));
  Arguments arguments = train_arguments(data, folder / "part", 6, options);
  run(with(arguments, {"--stop-after", "2"}));
  run(with(arguments, {"--resume", "--stop-after", "2"}));
  // A crash after step 4's checkpoint leaves measurements of steps that have to be done again.
  std::string log = bytes_of_file(folder / "part/metrics.jsonl");
  folder.write("part/metrics.jsonl", log + "{\"step\":5,\"loss\":99}\n{\"step\":6,\"lo");
  run(with(arguments, {"--resume"}));
  expect_same_checkpoints(folder / "part", folder / "whole");
  EXPECT_EQ(measurements(folder / "part"), measurements(folder / "whole"));
}

TEST(Threads, DoNotChangeABit) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  for (const char* threads : {"1", "2", "4"})
    run(train_arguments(data, folder / threads, 4,
                        {"--threads", threads, "--dropout", "0.1", "--width", "64"}));
  for (const char* threads : {"2", "4"}) {
    expect_same_checkpoints(folder / threads, folder / "1");
    EXPECT_EQ(measurements(folder / threads), measurements(folder / "1"));
  }
}

TEST(Seed, ChangesTheRun) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "a", 2));
  run(train_arguments(data, folder / "b", 2, {"--seed", "5"}));
  EXPECT_NE(measurements(folder / "a"), measurements(folder / "b"));
}

// Waits until `ready` or the program's end.
void wait_for(Program& program, const std::function<bool()>& ready) {
  while (program.is_running() && !ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Signals, TerminateSavesAndExitsWithCode3AndTheRunGoesOnExactly) {
  for (int number : {SIGTERM, SIGINT}) {
    TempFolder folder;
    std::string data = folder.write("text", tiny_text()), part = folder / "part";
    Arguments arguments = train_arguments(data, part, 1000000, {"--dropout", "0.1"});
    Program program(arguments);
    wait_for(program, [&] {
      std::ifstream log(part + "/metrics.jsonl");
      return std::count(std::istreambuf_iterator<char>(log), {}, '\n') > 5;
    });
    program.signal(number);
    ASSERT_EQ(program.wait(), 3) << program.err();
    EXPECT_NE(program.out().find("--resume"), std::string::npos) << "it says how to go on";
    int64_t step = train::load_checkpoint(part, true).step;
    run(with(arguments, {"--resume", "--stop-after", "3"}));
    run(train_arguments(data, folder / "whole", 1000000,
                        {"--dropout", "0.1", "--stop-after", std::to_string(step + 3)}));
    expect_same_checkpoints(part, folder / "whole");
    EXPECT_EQ(measurements(part), measurements(folder / "whole"));
  }
}

TEST(Signals, KillAtAnyMomentOfConstantSavingLosesNoCheckpoint) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), part = folder / "part";
  Arguments arguments =
      train_arguments(data, part, 1000000, {"--save-every", "1", "--keep", "1", "--eval-every", "0"});
  int64_t last = 0;
  for (uint64_t round = 0; round < 10; ++round) {
    Program program(round == 0 ? arguments : with(arguments, {"--resume"}));
    std::string before = round == 0 ? "" : bytes_of_file(part + "/checkpoints/LATEST");
    wait_for(program, [&] {
      const std::string latest = part + "/checkpoints/LATEST";  // the first checkpoint is there before it
      return std::filesystem::exists(latest) && bytes_of_file(latest) != before;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(philox_block(1, 0, round)[0] % 20000));
    program.signal(SIGKILL);
    ASSERT_EQ(program.wait(), 128 + SIGKILL) << program.err();
    int64_t step = train::load_checkpoint(part, true).step;
    EXPECT_GT(step, last) << "round " << round;
    last = step;
  }
  run(with(arguments, {"--resume", "--stop-after", "1"}));
  run(train_arguments(data, folder / "whole", 1000000,
                      {"--eval-every", "0", "--stop-after", std::to_string(last + 1)}));
  expect_same_checkpoints(part, folder / "whole");
}

}  // namespace
}  // namespace reprise::apps
