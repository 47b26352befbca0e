// What a rank holds beside what one process with the same model and micro-batches does: the program, Gloo, what sums arrive in.
// labels: end-to-end, slow
// not in asan: RankMemory.BeyondOneProcess
// not in tsan: RankMemory.BeyondOneProcess
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;
using namespace std::chrono_literals;

constexpr double mib = 1 << 20;

// The most memory that was resident so far in a process, code included, whenever one looks.
double most_resident(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::atof(line.c_str() + std::strlen("VmHWM:"));
  return -1;
}

// The most that a process of the run has held when six steps are done.
double most_resident(const std::string& data, const std::string& folder, int ranks) {
  const Arguments all =
      train_arguments(data, folder, 1'000'000,
                      {"--layers", "6", "--width", "384", "--heads", "6", "--context", "64", "--batch", "1",
                       "--eval-every", "0", "--accumulate", "2", "--ranks", std::to_string(ranks)});
  Program program(all);
  const auto steps = [&] {
    std::ifstream in(folder + "/metrics.jsonl");
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  for (int tries = 0; tries < 5000 && steps() < 6 && program.is_running(); ++tries)
    std::this_thread::sleep_for(20ms);
  const std::vector<pid_t> processes = ranks == 1 ? std::vector{program.process()} : program.children();
  EXPECT_EQ(processes.size(), size_t(ranks)) << program.err();
  double most = -1;
  for (const pid_t process : processes) most = std::max(most, most_resident(process));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 3) << program.err();
  return most;
}

TEST(RankMemory, BeyondOneProcess) {
  if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
  const double alone = most_resident(data, folder / "one", 1), rank = most_resident(data, folder / "two", 2);
  std::printf("one process %.1f MiB, a rank of two %.1f MiB\n", alone / mib, rank / mib);
  EXPECT_GT(alone, 4 * 4 * 10'000'000.0) << "weights, gradients and two moments";
  EXPECT_GT(rank, alone / 2) << "a rank's own was read too";
  EXPECT_LT(rank - alone, 30 * mib);  // -4 to -3: the one process holds a sum beside the gradients, 41 MiB
}

}  // namespace
}  // namespace reprise::apps
