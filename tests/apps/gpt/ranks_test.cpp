// --ranks: the same bits in any number of processes, resuming in another number, and what is said when a rank goes.
// labels: end-to-end
#include <map>
#include <memory>
#include <regex>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

struct Ranks : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());

  // 20 steps of four micro-batches, with dropout.
  Arguments arguments(const std::string& out, const Arguments& more, int steps = 20) const {
    Arguments all = {"--layers", "2", "--dropout", "0.1", "--accumulate", "4", "--eval-every", "10"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data, folder / out, steps, all);
  }
  std::string train(const std::string& out, const Arguments& more) const {
    testing::run(arguments(out, more));
    return folder / out;
  }
};

TEST_F(Ranks, HaveTheBitsOfOneProcess) {
  for (const char* precision : {"f32", "bf16"})
    for (const char* recompute : {"none", "full"}) {
      const Arguments options = {"--precision", precision, "--recompute", recompute};
      auto with = [&](const char* ranks) {
        Arguments all = options;
        all.insert(all.end(), {"--ranks", ranks});
        return train(std::string(precision) + recompute + ranks, all);
      };
      const std::string one = with("1");
      for (const char* ranks : {"2", "4"}) {
        const std::string several = with(ranks);
        expect_same_checkpoints(several, one);
        EXPECT_EQ(measurements(several), measurements(one)) << precision << recompute << ranks;
      }
    }
}

// Tensors of a size that leaves memory; what a step takes is told beforehand by one that computes nothing.
TEST_F(Ranks, ThatOffloadHaveTheBitsOfOneProcess) {
  auto with = [&](const char* ranks) {
    return train(std::string("offload") + ranks, {"--recompute", "offload", "--width", "64", "--context",
                                                  "64", "--batch", "4", "--ranks", ranks});
  };
  expect_same_checkpoints(with("2"), with("1"));
}

TEST_F(Ranks, WithoutAccumulateCutTheRowsOfAStep) {
  Arguments cut = train_arguments(data, folder / "cut", 4, {"--batch", "4", "--ranks", "2"});
  const std::string out = testing::run(cut);
  EXPECT_NE(out.find("--batch 2 --accumulate 2 gives the same bits"), std::string::npos) << out;
  testing::run(train_arguments(data, folder / "one", 4, {"--batch", "2", "--accumulate", "2"}));
  expect_same_checkpoints(folder / "cut", folder / "one");
}

TEST_F(Ranks, MoreThanCpusAreToldInTheHeader) {
  const std::string out = testing::run(arguments("many", {"--ranks", "4"}, 1));
  const unsigned cpus = std::thread::hardware_concurrency();
  const std::string line = detail::join("4 ranks take turns on this machine's ", cpus, " CPUs\n");
  EXPECT_EQ(out.find(line) != std::string::npos, cpus < 4) << out;
  EXPECT_TRUE(std::regex_search(out, std::regex("(^|\n)Hosts: 1: [^ ]+ with ranks 0 1 2 3\n"))) << out;
}

TEST_F(Ranks, AnotherNumberGoesOn) {
  train("whole", {});
  const std::string part = folder / "part";
  testing::run(arguments("part", {"--stop-after", "7"}));
  testing::run({"train", "--out", part, "--resume", "--ranks", "2", "--stop-after", "7"});
  testing::run({"train", "--out", part, "--resume"});
  expect_same_checkpoints(part, folder / "whole");
  EXPECT_EQ(measurements(part), measurements(folder / "whole"));
}

TEST_F(Ranks, WhatDoesNotFitIsRefused) {
  expect_refused(arguments("a", {"--ranks", "3"}),
                 {"--accumulate 4 is not a multiple of 3 ranks", "the nearest are 3 and 6"});
  expect_refused(train_arguments(data, folder / "b", 2, {"--batch", "5", "--ranks", "2"}),
                 {"--batch 5 is not a multiple of 2 ranks", "the nearest are 4 and 6"});
  expect_refused(arguments("c", {"--ranks", "0"}), {"--ranks"});
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

// Where `--ranks` or a launcher's variables say that there are several: each would read another part of it.
TEST_F(Ranks, DoNotShareStandardInput) {
  const Arguments from_input = train_arguments("-", folder / "a", 2, {"--accumulate", "2", "--timeout", "5"});
  const std::string message = "--data -: of 2 ranks each reads the data itself; give a file";
  Arguments own = from_input;
  own.insert(own.end(), {"--ranks", "2"});
  expect_refused(own, {message});
  const auto rank = start_rank(1, from_input, "portable");
  EXPECT_EQ(rank->wait(), 2) << rank->out();
  EXPECT_EQ(rank->err(), "reprise-gpt: " + message + "\n") << "and waits for no rank 0";
}

TEST_F(Ranks, ThatDifferAreToldInWhat) {
  const std::string other = folder.write("other", tiny_text(1499));
  struct Case {
    std::string on_rank_1, instruction_set, data, message;
  };
  for (const auto& [lr, instruction_set, text, message] :
       {Case{"0.002", "portable", data, "train: ranks differ: rank 0 has lr = 0.001, rank 1 has lr = 0.002"},
        Case{"0.001", "portable", other, "train: ranks differ: rank 0 has train-crc32c = "},
        Case{"0.001", "avx2", data,
             "DataParallel: ranks differ: rank 0 has instruction set portable (set by REPRISE_ISA), rank 1 "
             "has"}}) {
    if (instruction_set == "avx2" && !__builtin_cpu_supports("avx2")) continue;
    Arguments first = arguments("run", {"--lr", "0.001"}), second = arguments("run", {"--lr", lr});
    std::replace(second.begin(), second.end(), data, text);
    const auto rank_0 = start_rank(0, first, "portable"),
               rank_1 = start_rank(1, second, instruction_set.c_str());
    for (Program* rank : {rank_0.get(), rank_1.get()}) {
      EXPECT_NE(rank->wait(), 0) << rank->out();
      EXPECT_NE(rank->err().find(message), std::string::npos) << rank->err();
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  }
}

bool has_steps(const std::string& run_folder) {
  std::ifstream log(run_folder + "/metrics.jsonl");
  return log.peek() != std::ifstream::traits_type::eof();
}

void wait_for_steps(Program& program, const std::string& run_folder) {
  while (program.is_running() && !has_steps(run_folder))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

// What the launcher is given in a variable does not reach them; their own token comes by a pipe.
TEST_F(Ranks, HaveATokenThatNoEnvironmentShows) {
  const std::string secret = "a token that is in a variable";
  ::setenv("REPRISE_JOB_TOKEN", secret.c_str(), 1);
  Program program(arguments("token", {"--ranks", "2"}, 1000000));
  ::unsetenv("REPRISE_JOB_TOKEN");
  wait_for_steps(program, folder / "token");
  const std::vector<pid_t> ranks = program.children();
  ASSERT_EQ(ranks.size(), 2u) << program.err();
  EXPECT_NE(text_of("/proc/" + std::to_string(program.process()) + "/environ").find(secret),
            std::string::npos);
  for (const pid_t rank : ranks) {
    const std::string environment = text_of("/proc/" + std::to_string(rank) + "/environ");
    EXPECT_NE(environment.find("REPRISE_RANKS=2"), std::string::npos);
    EXPECT_EQ(environment.find("REPRISE_JOB_TOKEN"), std::string::npos);
    EXPECT_EQ(environment.find(secret), std::string::npos);
  }
  kill(program.process(), SIGTERM);
  EXPECT_EQ(program.wait(), 3) << program.err();
}

TEST_F(Ranks, WhereTheyMeetIsNoOptionOfTheRun) {
  expect_refused(arguments("a", {"--ranks", "2", "--rendezvous", "localhost:7000"}),
                 {"--rendezvous is for ranks that another launcher starts"});
  expect_refused(arguments("a", {"--ranks", "2", "--bind", "127.0.0.2"}),
                 {"--bind is for ranks that another launcher starts; --ranks 2 starts ranks that meet"});
  testing::run(
      arguments("one", {"--rendezvous", "localhost:7000", "--token-file", "x", "--bind", "localhost"}, 1));
  const std::string config = text_of(folder / "one/config.toml");
  for (const char* name : {"rendezvous", "token-file", "bind"})
    EXPECT_EQ(config.find(name), std::string::npos) << config;
}

TEST_F(Ranks, SendNothingInTheOpenThatIsToBeEncrypted) {
  const Arguments tls = {"--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "ca.pem"};
  auto with = [&](const char* ranks) {
    Arguments all = tls;
    all.insert(all.end(), {"--ranks", ranks});
    return arguments("tls", all);
  };
  expect_refused(with("1"), {"--tls-cert, --tls-key, --tls-ca: one process has no connections"});
  expect_refused(arguments("tls", {"--ranks", "2", "--tls-key", "key.pem"}),
                 {"--tls-key without --tls-cert, --tls-ca"});
  if (distributed::has_gloo_tls())
    expect_refused(with("2"), {"--tls-cert \"cert.pem\": No such file or directory"});
  else
    expect_refused(with("2"), {"--tls-cert, --tls-key, --tls-ca: this build's Gloo has no TLS", "WireGuard"});
}

TEST_F(Ranks, ThatAreKilledAreNamedWithinSeconds) {
  for (size_t killed : {0u, 1u}) {
    const std::string out = "killed" + std::to_string(killed);
    Program program(arguments(out, {"--ranks", "2"}, 1000000));
    kill_rank(program, folder / out, killed);
    const std::string text = program.err(), name = "rank " + std::to_string(killed);
    EXPECT_NE(text.find(name + " (pid "), std::string::npos) << text;
    EXPECT_TRUE(std::regex_search(text, std::regex(name + "( \\(pid [0-9]+\\))? died"))) << text;
  }
}

TEST_F(Ranks, AreAllStoppedByASignalToOne) {
  for (size_t stopped : {0u, 1u}) {
    const std::string out = "stopped" + std::to_string(stopped);
    Program program(arguments(out, {"--ranks", "2"}, 1000000));
    wait_for_steps(program, folder / out);
    const std::vector<pid_t> ranks = program.children();
    ASSERT_EQ(ranks.size(), 2u) << program.err();
    kill(ranks[stopped], SIGTERM);
    EXPECT_EQ(program.wait(), 3) << program.err();
    EXPECT_NE(program.out().find("saved. Go on with"), std::string::npos) << program.out();
  }
}

}  // namespace
}  // namespace reprise::apps
