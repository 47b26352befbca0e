// The launchers that users have, where they are installed: mpirun, torchrun, and srun by the variables that it sets. Two
// ranks of each have the bits of one process.
// labels: end-to-end
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

/// The program by its name in PATH, or in the virtual environment of tools/setup_peers.sh; empty if it is in neither.
std::string installed(const std::string& name) {
  auto folder_of = [](const char* variable) {
    return std::string(std::getenv(variable) ? std::getenv(variable) : "");
  };
  std::string folders = folder_of("PATH") + ":" + folder_of("HOME") + "/.cache/reprise-peers/bin";
  for (size_t begin = 0, end; begin < folders.size(); begin = end + 1) {
    end = std::min(folders.find(':', begin), folders.size());
    const std::string path = folders.substr(begin, end - begin) + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

struct Launchers : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());

  Arguments arguments(const std::string& out) const {
    return train_arguments(data, folder / out, 10, {"--dropout", "0.1", "--accumulate", "2"});
  }
  /// Two ranks by a launcher and its options, beside one process.
  void expect_one_process(const std::string& launcher, Arguments options) {
    options.push_back(gpt_program());
    const Arguments train = arguments("two");
    options.insert(options.end(), train.begin(), train.end());
    Program two(options, "", launcher.c_str());
    ASSERT_EQ(two.wait(), 0) << two.out() << two.err();
    expect_two_ranks(two.out());
  }
  void expect_two_ranks(const std::string& out) {
    EXPECT_NE(out.find("Ranks: 2 by "), std::string::npos) << out;
    testing::run(arguments("one"));
    expect_same_checkpoints(folder / "two", folder / "one");
    EXPECT_EQ(measurements(folder / "two"), measurements(folder / "one"));
  }
};

TEST_F(Launchers, Mpirun) {
  const std::string mpirun = installed("mpirun");
  if (mpirun.empty()) GTEST_SKIP() << "mpirun is not installed";
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1), setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);  // on a machine of one core too
  expect_one_process(mpirun, {"-n", "2"});
}

TEST_F(Launchers, Torchrun) {
  const std::string torchrun = installed("torchrun");
  if (torchrun.empty()) GTEST_SKIP() << "torchrun is not installed";
  expect_one_process(torchrun, {"--nproc-per-node=2", "--no-python", "--master-port",
                                std::to_string(20000 + getpid() % 20000)});
}

TEST_F(Launchers, Srun) {
  std::vector<std::unique_ptr<Program>> ranks;
  for (const char* rank : {"0", "1"}) {
    Arguments options = {
        "SLURM_STEP_ID=0",        "SLURM_STEP_NUM_TASKS=2",      "SLURM_STEP_NODELIST=localhost",
        "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_JOB_ID=" + std::to_string(getpid())};
    options.push_back(std::string("SLURM_PROCID=") + rank);
    options.push_back(std::string("SLURM_LOCALID=") + rank);
    options.push_back(gpt_program());
    const Arguments train = arguments("two");
    options.insert(options.end(), train.begin(), train.end());
    ranks.push_back(std::make_unique<Program>(options, "", "/usr/bin/env"));
  }
  for (const auto& rank : ranks) ASSERT_EQ(rank->wait(), 0) << rank->out() << rank->err();
  expect_two_ranks(ranks[0]->out());
}

}  // namespace
}  // namespace reprise::apps
