// What every program that trains is told: optimizer and schedule, run folder, device, memory.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reprise/apps/common/run_config.h"
#include "reprise/distributed/tls_files.h"
#include "reprise/train/trainer.h"

namespace CLI {
class App;
}

namespace reprise::apps {

/// What a command computes on, and in.
struct DeviceOptions {
  std::string device = "best", attention = "auto";
  std::string precision, matmul_precision;  ///< empty: those of the run which is read
};

struct TrainingOptions : DeviceOptions {
  TrainingOptions() { precision = "f32", matmul_precision = "highest"; }
  train::TrainerOptions trainer;
  std::string decay = "cosine";
  std::string resume;                   ///< "auto": only if the run has begun
  std::string init_from;                ///< a run folder, a checkpoint or a .safetensors file to start from
  bool change = false;                  ///< go on with options that are not the run's
  std::vector<OptionChange> changes{};  ///< those of --resume that are not, and may change bits
  int64_t batch = 12;                   ///< rows per micro-batch
  bool batch_auto = false;              ///< the largest that fits the memory, in place of `batch`
  int64_t eval_batches = 20;            ///< while training; the end always sees the whole split
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1, ema = 0;
  double init_scale = 65536;                                           ///< of the loss, for f16
  std::string master = "f32", moments = "f32", main_gradients = "on";  ///< of weights of 16 bits
  int64_t seed = 1337;
  int threads = 0;        ///< 0: all, or this rank's part of them
  int64_t ranks = 0;      ///< processes to start; 0: this one alone, or what another launcher has started
  int64_t timeout = 600;  ///< seconds that a rank waits for the others
  std::optional<int64_t>
      peer_timeout{};  ///< seconds without a heartbeat after which a rank is silent; 0: never; nothing: as GroupOptions
  std::string
      rendezvous;  ///< where the ranks meet, "host:port" or "file:FOLDER"; empty: as the launcher says
  std::string token_file;             ///< of the job's token; empty: REPRISE_JOB_TOKEN, if that is set
  std::string bind;                   ///< what rank 0 listens on; empty: its address
  distributed::TlsFiles tls;          ///< of the connections between ranks; empty: they are open
  int zero = 0;                       ///< stage of ZeRO: what ranks share
  std::string wire = "f32";           ///< what gradients are sent in
  std::string reduce = "tree";        ///< how gradients are added
  std::string bucket_size = "25MiB";  ///< of gradients that are sent together
  int64_t bits_of_ranks = 0;  ///< the number of ranks whose bits the run has; 0: those of any, or not known
  bool rank_logs = false;     ///< keep what each rank says on standard error
  bool is_cut = false;        ///< `batch` is what was asked for, cut into one micro-batch per rank
  std::string recompute = "none";
  std::string
      recompute_auto;  ///< "auto" or "auto:2GiB": `recompute` is chosen with the batch; empty: it is given
  std::string memory_limit;  ///< "2GiB"; empty: none
  std::string resolved;      ///< all options as TOML, for the run folder
};

/// `rows`: what a batch is made of, "Sequences". A program whose default is 0 steps counts in epochs: its own --epochs.
void add_optimizer_options(CLI::App& app, TrainingOptions& options, const std::string& rows);
/// `name`: of the default run folders, runs/NAME.
void add_run_options(CLI::App& app, TrainingOptions& options, const std::string& name);
/// --device, --attention and --precision alone, for commands that do not train.
void add_device_options(CLI::App& app, DeviceOptions& options);
/// --run, of commands that read a run.
void add_read_run_option(CLI::App& app, std::string& run);

/// Call it once the command line and --config are read: with --resume, takes over from the run's config.toml what the
/// command line leaves open, and notes in `options.changes` what differs and may change bits. Threads, how memory is
/// used, intervals and more steps change none, nor does what `also_free` names.
void take_run_options(CLI::App& train, TrainingOptions& options, const std::set<std::string>& also_free);

}  // namespace reprise::apps
