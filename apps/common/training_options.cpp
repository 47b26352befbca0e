#include "reprise/apps/common/training_options.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/validators.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/bytes.h"
#include "reprise/core/device.h"
#include "reprise/core/number_in.h"
#include "reprise/io/folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/precision.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps {
namespace {

// Note: --device and --attention are not free, since kernels of two devices round differently.
const std::set<std::string> free_options = {
    "--threads",      "--recompute",  "--memory-limit", "--eval-every", "--eval-batches",
    "--sample-every", "--save-every", "--keep",         "--steps",      "--anomaly",
    "--zero",         "--save-async", "--bucket-size"};

bool is_same_device(const OptionChange& change) {
  if (change.option != "--device") return false;
  try {
    return Device::parse(change.was) == Device::parse(change.now);
  } catch (const Error&) { return false; }
}

// Sums in the order of the tree have the same bits whole and in parts, others not.
bool changes_sums(const OptionChange& change, const TrainingOptions& o) {
  auto sums_of = [](const std::string& stage) {  // of stages 0 and 1, whole ones
    return std::max<int64_t>(1, number_in<int64_t>(stage).value_or(0));
  };
  if (o.reduce != "fast" || o.bits_of_ranks <= 1) return false;
  return change.option == "--bucket-size" ||
         (change.option == "--zero" && sums_of(change.was) != sums_of(change.now));
}

void add_interval_options(CLI::App& group, TrainingOptions& o) {
  const bool counts_epochs = o.trainer.schedule.steps == 0;
  group
      .add_option("--eval-every", o.trainer.eval_every,
                  counts_epochs ? "Steps between evaluations (0: once per epoch)"
                                : "Steps between evaluations (0: at the end)")
      ->transform(whole_from(0));
  group
      .add_option("--eval-batches", o.eval_batches,
                  "Batches an evaluation sees before the end (0: the whole split)")
      ->transform(whole_from(0));
  group.add_option("--sample-every", o.trainer.sample_every, "Steps between samples (0: at the end)")
      ->transform(whole_from(0));
  group.add_option("--save-every", o.trainer.save_every, "Steps between checkpoints (0: at the end)")
      ->transform(whole_from(0));
  group
      .add_option("--stop-after", o.trainer.stop_after,
                  "Save and stop after this many steps (0: go to the end)")
      ->transform(whole_from(0));
  group
      .add_option_function<std::string>(
          "--save-async",
          [&o](const std::string& when) {
            o.trainer.save_async = when == "auto" ? std::nullopt : std::optional(when == "on");
          },
          "Copy a checkpoint to host memory and write it while training goes on: on, off, or auto: on a GPU")
      ->default_str("auto")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  group.add_option("--keep", o.trainer.keep, "Checkpoints to keep")->transform(whole_from(1, INT_MAX));
}

void add_meeting_options(CLI::App& group, TrainingOptions& o) {
  group
      .add_option("--rendezvous", o.rendezvous,
                  "Where ranks of several machines meet: host:port of rank 0, or file:FOLDER, one that all\n"
                  "see (default: MASTER_ADDR and MASTER_PORT, as the launcher sets them)")
      ->check(not_empty());
  group
      .add_option("--token-file", o.token_file,
                  "File of mode 0600 with the secret that ranks of several machines prove to one another\n"
                  "(default: REPRISE_JOB_TOKEN)")
      ->check(not_empty());
  group
      .add_option("--bind", o.bind,
                  "Address that rank 0 listens on, in place of its own; 0.0.0.0: all of its machine's")
      ->check(not_empty());
  group
      .add_option("--tls-cert", o.tls.cert,
                  "Encrypt what ranks on CPUs send to one another, by TLS: this rank's certificate (PEM).\n"
                  "Needs a Gloo that was built with TLS, --tls-key and --tls-ca (docs/distributed.md)")
      ->check(not_empty());
  group.add_option("--tls-key", o.tls.key, "Private key of --tls-cert (PEM)")->check(not_empty());
  group
      .add_option("--tls-ca", o.tls.ca,
                  "Certificates of who signs for this job's ranks; others are not let in (PEM)")
      ->check(not_empty());
}

void add_rank_options(CLI::App& group, TrainingOptions& o) {
  group
      .add_option("--ranks", o.ranks,
                  "Train in N processes on this machine, to the same bits; without --accumulate the\n"
                  "rows of --batch are cut into one micro-batch per rank (docs/distributed.md)")
      ->transform(whole_from(1, 1024));
  group
      .add_option(
          "--zero", o.zero,
          "What ranks share, to the same bits: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 the\n"
          "weights of blocks too")
      ->check(CLI::IsMember({0, 1, 2, 3}));
  group
      .add_option("--wire", o.wire,
                  "What gradients are sent in between ranks: f32, as they are, or bf16: half the bytes, and\n"
                  "bits that depend on the number of ranks")
      ->check(CLI::IsMember({"f32", "bf16"}));
  group
      .add_option("--reduce", o.reduce,
                  "How gradients are added: tree, to the same bits on any number of ranks, or fast: one\n"
                  "after another, and between ranks around a ring, or as NCCL adds on GPUs; bits then\n"
                  "depend on the number of ranks, on --zero from 2 on and on --bucket-size")
      ->check(CLI::IsMember({"tree", "fast"}));
  group
      .add_option("--bucket-size", o.bucket_size,
                  "Gradients that ranks send together, such as 25MiB; the first of them are 1MiB at most")
      ->check(parsed_by(parse_bytes));
  group.add_flag("--rank-logs", o.rank_logs,
                 "Keep what rank K says on standard error in the run folder too, as rank-K.log");
  // Of config.toml alone, where it is set (take_ranks).
  group.add_option("--bits-of-ranks", o.bits_of_ranks)->group("")->default_str("");
  group.add_option("--timeout", o.timeout, "Seconds that a rank waits for a call of the others")
      ->transform(whole_from(1, 1 << 24));
  group
      .add_option("--peer-timeout", o.peer_timeout,
                  "Seconds without a heartbeat after which a rank is given up (0: never, for debuggers);\n"
                  "3 where rank 0 is on loopback, 10 between machines, if it is not given")
      ->transform(whole_from(0, 1 << 24));
  add_meeting_options(group, o);
}

void add_memory_options(CLI::App& group, TrainingOptions& o) {
  group
      .add_option("--recompute", o.recompute,
                  "Play blocks again in backward instead of keeping what they compute, to the\n"
                  "same bits: none, full (all blocks), selective (only what is cheap of them),\n"
                  "selective:save_attention or :save_matmuls (all but these), every:N (each\n"
                  "N-th), keep:N (all but each N-th), layers:2,5,8, segments:N (N groups, the last\n"
                  "kept), sqrt (of the blocks as N), offload (full; inputs wait off the device),\n"
                  "with a policy as offload:recompute_cheap, a plan as 'plan:[0-2] 3' (played again:\n"
                  "what is in brackets), or auto:2GiB: the fastest plan, measured first, with which a\n"
                  "step takes at most that, with weights, gradients and optimizer state; auto:50%:\n"
                  "halfway between the least memory and what none takes; auto: within what there is.\n"
                  "With --batch auto, auto and auto:2GiB choose strategy and batch together")
      ->transform(or_auto(parsed_by(parse_strategy)));
  add_former_option(group, "--memory-budget", "the budget is part of --recompute, as auto:2GiB");
  group.add_option("--memory-limit", o.memory_limit, "Largest memory for tensors, such as 2GiB")
      ->check(parsed_by(parse_bytes));
}

}  // namespace

namespace {

void add_pure_options(CLI::App& group, TrainingOptions& o) {
  group
      .add_option("--master", o.master,
                  "With a pure precision, what is kept of a weight beside its 16 bits: f32 (a copy),\n"
                  "split (the lower half of that) or stochastic (nothing: it is rounded at random);\n"
                  "the last two for bf16-pure")
      ->check(CLI::IsMember({"f32", "split", "stochastic"}));
  group
      .add_option("--moments", o.moments,
                  "With a pure precision, what AdamW's moments are stored in: f32, or, rounded at random,\n"
                  "bf16 or u8 (blocks of 256 that share a scale)")
      ->check(CLI::IsMember({"f32", "bf16", "u8"}));
  group
      .add_option("--main-gradients", o.main_gradients,
                  "With a pure precision, gradients of weights in f32 (on), or in 16 bits as these (off)")
      ->check(CLI::IsMember({"on", "off"}));
}

}  // namespace

void add_optimizer_options(CLI::App& app, TrainingOptions& o, const std::string& rows) {
  auto* group = app.add_option_group("Optimization");
  auto& schedule = o.trainer.schedule;
  const bool counts_epochs = schedule.steps == 0;
  group
      ->add_option("--steps", schedule.steps,
                   counts_epochs ? "Updates in all (0: --epochs)" : "Updates in all")
      ->transform(whole_from(counts_epochs ? 0 : 1));
  auto set_batch = [&o](const std::string& text) {
    o.batch_auto = text == "auto";
    if (!o.batch_auto) o.batch = number_in<int64_t>(text).value();
  };
  group
      ->add_option_function<std::string>(
          "--batch", set_batch,
          rows + " per micro-batch; auto: as many as fit the memory, once, with\n--accumulate for the same " +
              "rows per update; with --recompute auto,\nas many as train fastest with the strategy that fits "
              "them")
      ->transform(or_auto(whole_from(1)))
      ->type_name("INT or auto")
      ->default_str(std::to_string(o.batch));
  group->add_option("--accumulate", o.trainer.accumulate, "Micro-batches per update, over all ranks")
      ->transform(whole_from(1));
  group->add_option("--lr", schedule.lr, "Peak learning rate")->check(number_from_0());
  group->add_option("--min-lr", schedule.min_lr, "Learning rate at the end; constant and step have none")
      ->check(number_from_0());
  group->add_option("--warmup", schedule.warmup, "Steps of linear warm-up")->transform(whole_from(0));
  group
      ->add_option(
          "--decay", o.decay,
          "After the warm-up: constant, linear, cosine, wsd, or step (a tenth after\neach third of the run)")
      ->check(parsed_by(optim::parse_decay));
  group->add_option("--beta1", o.beta1, "Decay of the mean gradient")->check(probability());
  group->add_option("--beta2", o.beta2, "Decay of the mean squared gradient")->check(probability());
  group->add_option("--weight-decay", o.weight_decay, "Of matrices; vectors do not decay")
      ->check(number_from_0());
  group->add_option("--clip", o.trainer.clip, "Largest norm of the gradient (0: no limit)")
      ->check(number_from_0());
  group
      ->add_option(
          "--init-scale", o.init_scale,
          "With --precision f16 or f16-pure: the first scale of the loss, a power of two; it halves\n"
          "where gradients overflow, and doubles after --scale-interval updates where none did")
      ->check(power_of_two());
  group
      ->add_option("--scale-interval", o.trainer.scale_interval,
                   "With --precision f16 or f16-pure: updates without an overflow after which the scale\n"
                   "of the loss doubles")
      ->transform(whole_from(1, 1 << 30));
  add_pure_options(*group, o);
  group->add_option("--ema", o.ema, "Decay of an average of the weights to evaluate with (0: none)")
      ->check(probability());
}

void add_device_options(CLI::App& app, DeviceOptions& o) {
  app.add_option("--device", o.device, "cpu, cuda, cuda:N or best: the GPU if there is one")
      ->check(parsed_by(Device::parse));
  app.add_option("--attention", o.attention,
                 "Attention kernels on a GPU: reprise (any), sm90 (ours for Hopper), auto (sm90 where\n"
                 "there is one) or cudnn, which in backward takes 2 bytes for each score; what the\n"
                 "chosen ones do not take is left to reprise");
  app.add_option("--precision", o.precision,
                 "f32; bf16 or f16: products and what follows them in 16 bits; weights, their\n"
                 "gradients and the optimizer's state stay f32; bf16-pure or f16-pure: weights are of\n"
                 "16 bits too, all but norms'" +
                     std::string(o.precision.empty() ? " (default: the run's)" : ""))
      ->check(parsed_by(train::parse_precision));
  app.add_option("--matmul-precision", o.matmul_precision,
                 "Products of f32: highest, or high: their factors may be rounded, to TF32 on GPUs and\n"
                 "to 16 digits on CPUs with AMX" +
                     std::string(o.matmul_precision.empty() ? " (default: the run's)" : ""))
      ->check(CLI::IsMember({"highest", "high"}));
}

void add_read_run_option(CLI::App& app, std::string& run) {
  app.add_option("--run", run, "Run folder or checkpoint (default: the newest in runs/)")->check(not_empty());
}

void add_run_options(CLI::App& app, TrainingOptions& o, const std::string& name) {
  auto* group = app.add_option_group("Run");
  group
      ->add_option("--out", o.trainer.run_folder,
                   "Run folder (default: the first free of runs/" + name + ", runs/" + name + "-2, ...)")
      ->check(not_empty());
  group
      ->add_option("--resume", o.resume,
                   "Go on from the newest checkpoint in --out, with the options that the run has\n"
                   "(config.toml); what changes no bit of the steps done may be given anew. auto: if a\n"
                   "run has begun there, else begin it; so does a restart by torchrun")
      ->expected(0, 1)
      ->type_name("[auto]")
      ->check(CLI::IsMember({"auto"}));
  group->add_flag("--change", o.change, "With --resume: go on with other options than the run has");
  group
      ->add_option("--init-from", o.init_from,
                   "Start from the weights of a run, a checkpoint or a file (docs/convert.md)")
      ->check(not_empty());
  add_interval_options(*group, o);
  group->add_option("--seed", o.seed, "Seed of weights, batches and dropout")->transform(whole_from(0));
  group->add_option("--threads", o.threads, "Threads (0: one per CPU); results do not depend on it")
      ->transform(whole_from(0, INT_MAX));
  add_rank_options(*group, o);
  add_device_options(*group, o);
  add_memory_options(*group, o);
  group->add_flag("--anomaly", o.trainer.anomaly, "Stop at the first NaN or inf and name the operation");
}

namespace {

// Whether torchrun starts this run anew after a failure: then what is there goes on.
bool is_restart() {
  constexpr const char* name = "TORCHELASTIC_RESTART_COUNT";
  const char* text = std::getenv(name);
  if (!text) return false;
  const auto count = number_in<int64_t>(text);
  check(count.has_value(), name, " is '", text, "', not a number");
  return *count > 0;
}

// A run that cannot be read counts as one: what it lacks is told, and nothing begins in its place.
void decide_resume(const CLI::App& train, TrainingOptions& o) {
  std::string& folder = o.trainer.run_folder;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const bool is_given = train.get_option("--resume")->count() > 0, restarts = !is_given && is_restart();
  const bool by_itself = o.resume == "auto" || restarts;
  o.trainer.resume = is_given || restarts;
  check(o.trainer.resume || !o.change, "--change is for --resume");
  check(!o.trainer.resume || !folder.empty(),
        restarts ? "torchrun has started this run again, " : "--resume: ", "say which run goes on by --out");
  if (!by_itself) return;
  const train::FolderState state = train::state_of(folder);
  o.trainer.resume = state == train::FolderState::saved || state == train::FolderState::begun;
}

void take_resumed_options(CLI::App& train, TrainingOptions& o, const std::set<std::string>& also_free) {
  decide_resume(train, o);
  const std::string& folder = o.trainer.run_folder;
  if (!o.trainer.resume) return;
  std::string config = folder + "/config.toml";
  if (io::exists(config)) o.changes = take_run_config(train, config);
  check(!o.batch_auto, "--batch auto is for a new run: --resume goes on with the batch that it chose");
  std::erase_if(o.changes, [&](const OptionChange& change) {
    const bool is_free = free_options.contains(change.option) && !changes_sums(change, o);
    return is_free || also_free.contains(change.option) || is_same_device(change);
  });
}

void check_pure_options(const TrainingOptions& o, train::Precision precision) {
  const bool pure = train::is_pure(precision);
  auto needs_pure = [&](const char* option, const std::string& value, const std::string& by_default) {
    check(pure || value == by_default, option, ' ', value,
          " is for weights of 16 bits: --precision bf16-pure or f16-pure, not ", o.precision);
  };
  needs_pure("--master", o.master, "f32");
  needs_pure("--moments", o.moments, "f32");
  needs_pure("--main-gradients", o.main_gradients, "on");
  check(o.master == "f32" || precision == train::Precision::bf16_pure, "--master ", o.master,
        " is for --precision bf16-pure, not ", o.precision);
}

}  // namespace

void take_run_options(CLI::App& train, TrainingOptions& o, const std::set<std::string>& also_free) {
  o.trainer.loss_scale_is_given = train.get_option("--init-scale")->count() > 0;
  take_resumed_options(train, o, also_free);
  take_ranks(train, o);
  const train::Precision precision = train::parse_precision(o.precision);
  const bool is_f16 = train::is_f16(precision);
  check_pure_options(o, precision);
  check(is_f16 || o.trainer.resume || o.init_scale == TrainingOptions().init_scale,
        "--init-scale is for --precision f16 and f16-pure, whose gradients need a loss scale");
  check(is_f16 || o.trainer.resume || o.trainer.scale_interval == train::TrainerOptions().scale_interval,
        "--scale-interval is for --precision f16 and f16-pure, whose gradients need a loss scale");
  auto is_new = [&](const char* name) {
    return std::any_of(o.changes.begin(), o.changes.end(),
                       [&](const OptionChange& change) { return change.option == name; });
  };
  // Of a checkpoint that has no scale, it is no change.
  const bool has_scale = o.trainer.resume && train::has_loss_scale(o.trainer.run_folder);
  check(!has_scale || !is_new("--init-scale") || is_new("--precision"),
        "--init-scale is for a new run: --resume goes on with the scale that its checkpoint has");
  std::erase_if(o.changes, [](const OptionChange& change) { return change.option == "--init-scale"; });
  o.trainer.may_convert = o.change;
  o.trainer.seed = uint64_t(o.seed);
  o.trainer.loss_scale = is_f16 ? o.init_scale : 0;
}

}  // namespace reprise::apps
