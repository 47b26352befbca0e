// The options of `reprise-recompute` and its subcommands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::apps::recompute {

/// What every command trains.
struct WorkloadOptions {
  std::string model = "gpt_6x384";  ///< a preset; the numbers below replace its own where they are not 0
  int64_t layers = 0, width = 0, heads = 0;
  int64_t context = 0, vocab_size = 0;        ///< of GPTs
  int64_t image = 0, patch = 0, classes = 0;  ///< of models of images
  int64_t batch = 0, length = 0;              ///< 0: the preset's
  double dropout = 0, drop_path = 0;
  std::string recompute_predictor;  ///< of a JEPA; empty: as the encoder has it, and none with auto
  std::string data;                 ///< a text, read as characters; empty: random tokens
  std::string device = "best";
  std::string precision = "f32";
  int64_t seed = 1337;
  int threads = 0;  ///< 0: all
  std::string out;  ///< the folder that files go into
};

struct VerifyCommand {
  WorkloadOptions workload;
  std::string recompute = "full";
  int64_t steps = 5;
};

struct CompareCommand {
  WorkloadOptions workload;
  std::vector<std::string> recompute;  ///< empty: all there are
  int64_t rounds = 5;
};

struct MaxBatchCommand {
  WorkloadOptions workload;
  std::string recompute = "full", memory_limit;
  int64_t steps = 3, largest = 65536;
};

struct ProfileCommand {
  WorkloadOptions workload;
  std::string recompute = "full";
};

struct PlanCommand {
  WorkloadOptions workload;
  std::string recompute;  ///< "auto:2GiB"; empty: the frontier alone
  int64_t rounds = 3;
};

/// How AdamW's state of weights of 16 bits is kept, as for the programs that train.
struct StorageOptions {
  std::string master = "f32", moments = "f32";
};

/// Error unless the precision has weights of which they say something.
void check_storage(const StorageOptions& storage, const std::string& precision);

struct ExplainCommand {
  WorkloadOptions workload;
  StorageOptions storage;
};

struct MemoryCommand {
  WorkloadOptions workload;
  std::vector<std::string> recompute{"none", "selective", "sqrt", "full"};
  int ranks = 1, zero = 0;
  int64_t accumulate = 1;  ///< micro-batches per update and rank
  std::string optimizer = "adamw";
  StorageOptions storage;
  std::string memory_limit;  ///< empty: no batch is searched
};

struct Command {
  enum class Kind : uint8_t {
    verify,
    compare,
    max_batch,
    profile,
    plan,
    explain,
    memory
  } kind = Kind::verify;
  VerifyCommand verify;
  CompareCommand compare;
  MaxBatchCommand max_batch;
  ProfileCommand profile;
  PlanCommand plan;
  ExplainCommand explain;
  MemoryCommand memory;
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad
/// options.
Command parse_command_line(int argc, char** argv);

// Each returns the exit code.
int run_verify(const VerifyCommand& command);
int run_compare(const CompareCommand& command);
int run_max_batch(const MaxBatchCommand& command);
int run_profile(const ProfileCommand& command);
int run_plan(const PlanCommand& command);
int run_explain(const ExplainCommand& command);
int run_memory(const MemoryCommand& command);

}  // namespace reprise::apps::recompute
