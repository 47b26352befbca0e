// Runs the built programs as their users do; reprise-gpt on a tiny text.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reprise/core/random.h"
#include "reprise/io/run_log.h"
#include "reprise/tests/apps/built_programs.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/checkpoint.h"

namespace reprise::testing {

using Arguments = std::vector<std::string>;

/// A run of the program. Its output goes into files, so that it can never block.
class Program {
 public:
  /// `input` stands on standard input.
  explicit Program(const Arguments& arguments, const std::string& input = "",
                   const char* program = gpt_program()) {
    folder_.write("in", input);
    std::vector<const char*> argv = {program};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    std::string in = folder_ / "in", out = folder_ / "out", err = folder_ / "err";
    process_ = fork();
    if (process_ != 0) return;
    dup2(::open(in.c_str(), O_RDONLY), 0);
    dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    execv(argv[0], const_cast<char* const*>(argv.data()));
    _exit(127);
  }
  ~Program() {
    if (running_) signal(SIGKILL), wait();
  }
  Program(const Program&) = delete;

  pid_t process() const { return process_; }
  /// The processes that it has started, in that order: ranks.
  std::vector<pid_t> children() const {
    const std::string name = std::to_string(process_);
    std::ifstream in("/proc/" + name + "/task/" + name + "/children");
    std::vector<pid_t> all;
    for (pid_t child; in >> child;) all.push_back(child);
    return all;
  }
  void signal(int number) { kill(process_, number); }
  bool is_running() {
    int status = 0;
    if (running_ && waitpid(process_, &status, WNOHANG) == process_) ended(status);
    return running_;
  }
  /// The exit code; 128 + the signal's number if one killed it. A run that does not end within a minute is
  /// killed.
  int wait() {
    for (auto begin = Clock::now(); is_running(); std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      if (Clock::now() - begin > std::chrono::minutes(1)) signal(SIGKILL);
    return code_;
  }
  std::string out() const { return text_of("out"); }
  std::string err() const { return text_of("err"); }

 private:
  using Clock = std::chrono::steady_clock;
  void ended(int status) {
    running_ = false;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text_of(const char* name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TempFolder folder_;
  pid_t process_ = -1;
  bool running_ = true;
  int code_ = -1;
};

/// Starts rank `rank` of two as torchrun would.
inline std::unique_ptr<Program> start_rank(int rank, const Arguments& arguments, const char* instruction_set,
                                           const char* program = gpt_program()) {
  const std::map<const char*, std::string> variables = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(20000 + getpid() % 20000)},
      {"REPRISE_ISA", instruction_set}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  auto started = std::make_unique<Program>(arguments, "", program);
  for (const auto& [name, value] : variables) unsetenv(name);
  return started;
}

/// Runs to the end and expects exit code `code`; returns what it printed.
inline std::string run(const Arguments& arguments, int code = 0, const std::string& input = "") {
  Program program(arguments, input);
  EXPECT_EQ(program.wait(), code) << program.err();
  return program.out();
}

/// Kills one of the two ranks of a run once both train, and expects that the run ends within seconds; their processes.
inline std::vector<pid_t> kill_rank(Program& program, const std::string& run_folder, size_t killed) {
  std::error_code none;
  while (program.is_running() &&
         (std::filesystem::file_size(run_folder + "/metrics.jsonl", none) == 0 || none))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<pid_t> ranks = program.children();
  EXPECT_EQ(ranks.size(), 2u) << program.err();
  if (killed < ranks.size()) kill(ranks[killed], SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(program.wait(), 4) << program.err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  return ranks;
}

/// Expects exit code 2 and one line on standard error that holds each of `parts`.
inline void expect_refused(const Arguments& arguments, const std::vector<std::string>& parts) {
  Program program(arguments);
  EXPECT_EQ(program.wait(), 2) << program.out() << program.err();
  std::string line = program.err();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_TRUE(line.starts_with("reprise-gpt: ")) << line;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << line << "lacks: " << part;
}

/// Words from a small alphabet, the same in every run.
inline std::string tiny_text(size_t characters = 1500) {
  std::string text;
  for (uint64_t i = 0; text.size() < characters; ++i) {
    auto bits = philox_block(8, 0, i);
    for (uint32_t l = 0; l <= bits[0] % 5; ++l) text += char('a' + (bits[1] >> (3 * l)) % 8);
    text += i % 9 == 8 ? '\n' : ' ';
  }
  return text.substr(0, characters);
}

/// `train` of a tiny model for `steps` steps into `folder`, on one thread; what `more` gives replaces the
/// defaults.
inline Arguments train_arguments(const std::string& data, const std::string& folder, int steps,
                                 const Arguments& more = {}) {
  const std::vector<std::pair<std::string, std::string>> defaults = {
      {"--layers", "1"},        {"--heads", "2"},      {"--width", "16"},     {"--context", "8"},
      {"--batch", "2"},         {"--warmup", "2"},     {"--eval-every", "2"}, {"--eval-batches", "2"},
      {"--sample-tokens", "5"}, {"--save-every", "0"}, {"--threads", "1"}};
  Arguments all = {"train", "--data", data, "--out", folder, "--steps", std::to_string(steps)};
  for (const auto& [option, value] : defaults)
    if (std::find(more.begin(), more.end(), option) == more.end()) all.insert(all.end(), {option, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The folder of the newest checkpoint.
inline std::string newest_checkpoint(const std::string& run_folder) {
  std::string name = bytes_of_file(run_folder + "/checkpoints/LATEST");
  return run_folder + "/checkpoints/" + name.substr(0, name.find('\n'));
}

/// Expects the newest checkpoints of two runs to hold the same files with the same bytes; where ranks of the first have written
/// a file each, once it is consolidated.
inline void expect_same_checkpoints(const std::string& got, const std::string& want) {
  std::string a = newest_checkpoint(got), b = newest_checkpoint(want);
  EXPECT_EQ(std::filesystem::path(a).filename(), std::filesystem::path(b).filename());
  TempFolder folder;
  if (!std::filesystem::exists(a + "/optimizer.safetensors")) {
    train::consolidate_checkpoint(a, folder / "whole");
    a = folder / "whole";
  }
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(b)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    std::string name = entry.path().filename();
    EXPECT_TRUE(bytes_of_file(a + "/" + name) == bytes_of_file(b + "/" + name)) << name << " differs";
    EXPECT_TRUE(std::filesystem::exists(a + "/" + name)) << name;
  }
  EXPECT_GE(files, 2u);
}

/// Whether a value of metrics.jsonl depends on the clock, on memory or on the number of ranks.
inline bool is_of_the_machine(const std::string& name) {
  return name == "units_per_second" || name == "peak_bytes" || name == "data_seconds" ||
         name == "slowest_rank" || name.starts_with("recompute") || name.starts_with("comm_") ||
         name.starts_with("exposed_comm_") || name.starts_with("step_seconds_");
}

/// All else: (step, name, value) of all losses, rates, norms and checksums.
inline std::vector<std::string> measurements(const std::string& run_folder) {
  std::vector<std::string> all;
  for (const io::RunRecord& record : io::read_run_log(run_folder + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics)
      if (!is_of_the_machine(name))
        all.push_back(detail::join(record.step, ' ', name, ' ', std::hexfloat, value));
  return all;
}

}  // namespace reprise::testing
