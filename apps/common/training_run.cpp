#include "reprise/apps/common/training_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include "reprise/apps/common/batch_choice.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/memory_advice.h"
#include "reprise/apps/common/ranks.h"
#include "reprise/apps/common/run_config.h"
#include "reprise/apps/common/shared_memory.h"
#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/core/bytes.h"
#include "reprise/core/memory.h"
#include "reprise/core/parallel.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/folder.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/gemm/matmul_precision.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/progress.h"
#include "reprise/train/run_folder.h"

namespace reprise::apps {

namespace fs = std::filesystem;

namespace {

// --recompute auto within what memory there is; with --batch auto it is left open, to be chosen with the batch.
void take_automatic(TrainingOptions& o, Device device) {
  if (!o.recompute.starts_with("auto")) return;
  if (o.batch_auto) {
    check(!o.recompute.ends_with('%'), "--recompute ", o.recompute,
          " is between what a batch takes with and without recompute; with --batch auto give bytes, such as "
          "auto:2GiB, or auto");
    o.recompute_auto = std::exchange(o.recompute, "none");
  } else if (o.recompute == "auto") {
    const size_t bytes = nn::room_in(nn::memory_for_tensors(device)),
                 unit = bytes >> 30 > 0 ? 1 << 20 : 1 << 10;
    o.recompute = to_string(RecomputeStrategy{.kind = RecomputeStrategy::Kind::automatic,
                                              .memory_budget = std::max(bytes / unit, size_t(1)) * unit});
  }
}

}  // namespace

Device apply_training_options(TrainingOptions& o) {
  auto& schedule = o.trainer.schedule;
  check(schedule.min_lr <= schedule.lr, "--min-lr ", schedule.min_lr, " is above --lr ", schedule.lr);
  take_threads(o);
  const Device device = device_of(o);
  use_attention(o.attention, device);
  if (!o.memory_limit.empty()) allocator(device).set_limit(parse_bytes(o.memory_limit));
  take_automatic(o, device);
  schedule.decay = optim::parse_decay(o.decay);
  if (!optim::ends_at_min_lr(schedule.decay)) schedule.min_lr = 0;
  return device;
}

void use_attention(const std::string& name, Device device) {
  using kernels::AttentionBackend;
  for (const AttentionBackend backend : kernels::attention_backends) {
    if (name != kernels::name_of(backend)) continue;
    const bool anywhere = backend == AttentionBackend::automatic || backend == AttentionBackend::reprise;
    check(anywhere || device.type == DeviceType::cuda, "--attention ", name,
          ": these kernels run on a GPU, but the device is ", device);
    check(kernels::has_attention_backend(backend), "--attention ", name, ": this build does not have it");
    return kernels::set_attention_backend(backend);
  }
  fail("--attention ", name, ": there are auto, reprise, sm90 and cudnn");
}

namespace {

// What is given, or what the run has; `first` for one from before there was a choice.
std::string given_or_of_run(const std::string& given, const std::string& key, const std::string& run_folder,
                            const std::string& first) {
  std::string name = given;
  const std::string config = run_folder + "/config.toml";
  if (name.empty() && io::exists(config)) name = read_config(config)[key];
  return name.empty() ? first : name;
}

train::Precision precision_of(const DeviceOptions& o, const std::string& run_folder) {
  const std::string name = given_or_of_run(o.precision, "precision", run_folder, "f32");
  return train::under_option("--precision", [&] { return train::parse_precision(name); });
}

}  // namespace

train::PrecisionScope precision_scope(const DeviceOptions& o, Device device, const std::string& run_folder) {
  const std::string products = given_or_of_run(o.matmul_precision, "matmul-precision", run_folder, "highest");
  set_matmul_precision(products == "high" ? MatmulPrecision::high : MatmulPrecision::highest);
  return train::PrecisionScope(precision_of(o, run_folder), device);
}

void take_precision(nn::Module& model, const DeviceOptions& o, const std::string& run_folder) {
  train::to_precision(model, precision_of(o, run_folder));
}

void take_precision(nn::Module& model, const TrainingOptions& o) {
  train::to_precision(model, train::parse_precision(o.precision));
  if (o.main_gradients == "on") train::use_main_gradients(model);
}

namespace {

/// So that numbers are not rounded by the draws that have made weights and dropout.
uint64_t rounding_seed(const TrainingOptions& o) { return uint64_t(o.seed) ^ 0x726f756e64696e67; }

}  // namespace

optim::Master master_of(const std::string& name) {
  return name == "split"        ? optim::Master::split
         : name == "stochastic" ? optim::Master::stochastic
                                : optim::Master::f32;
}

void set_storage(optim::AdamWOptions& adamw, const std::string& master, const std::string& moments) {
  adamw.master = master_of(master);
  adamw.moments = moments == "bf16" ? DType::bf16 : moments == "u8" ? DType::u8 : DType::f32;
}

namespace {

optim::AdamWOptions adamw_options(const TrainingOptions& o) {
  optim::AdamWOptions adamw{.beta1 = o.beta1, .beta2 = o.beta2, .seed = rounding_seed(o)};
  set_storage(adamw, o.master, o.moments);
  return adamw;
}

}  // namespace

void set_sums(distributed::DataParallel& parallel, const TrainingOptions& o) {
  if (o.reduce == "fast") parallel.set_sum_order(distributed::SumOrder::fast);
  if (o.wire == "f32") return;
  parallel.set_bucket_hook(distributed::compressed(DType::bf16));
}

std::unique_ptr<optim::AdamW> make_adamw(distributed::DataParallel& parallel,
                                         std::vector<optim::ParameterGroup> groups,
                                         const TrainingOptions& o) {
  return std::make_unique<distributed::ShardedAdamW>(
      parallel, std::move(groups),
      distributed::ShardedAdamWOptions{.stage = o.zero, .adamw = adamw_options(o)});
}

std::unique_ptr<optim::Sgd> make_sgd(distributed::DataParallel& parallel,
                                     std::vector<optim::ParameterGroup> groups, const TrainingOptions& o,
                                     optim::SgdOptions sgd) {
  sgd.master = master_of(o.master);
  sgd.seed = rounding_seed(o);
  return std::make_unique<distributed::ShardedSgd>(
      parallel, std::move(groups), distributed::ShardedSgdOptions{.stage = o.zero, .sgd = sgd});
}

std::unique_ptr<optim::Ema> make_averages(distributed::DataParallel& parallel, double decay) {
  if (decay == 0) return nullptr;
  const distributed::WholeWeights whole(parallel);
  return std::make_unique<optim::Ema>(parallel.model(), decay);
}

std::optional<train::RunLock> check_folder(const TrainingOptions& o) {
  if (!is_first_rank()) return {};
  const std::string& folder = o.trainer.run_folder;
  if (!o.trainer.resume) {
    if (!folder.empty()) train::check_free(folder);
    return {};
  }
  train::FolderState state = train::state_of(folder);
  check(state == train::FolderState::saved || state == train::FolderState::begun,
        "--resume: no checkpoint in ", folder, ", and no config.toml of a run that was only begun");
  return train::RunLock(folder, [](const std::string& text) { train::warn("warning: {}\n", text); });
}

size_t gradient_bytes(optim::Optimizer& optimizer) {
  size_t bytes = 0;
  for (const optim::ParameterGroup* group : optimizer.all_groups())
    for (const Tensor& x : group->parameters)
      if (x.requires_grad()) bytes += size_t(x.numel()) * size_of(x.grad_dtype());
  return bytes;
}

size_t window_bytes(const TrainingOptions& o, size_t gradients, Device device, int ranks) {
  const bool has_windows = device.is_cuda() && ranks > 1 && o.zero < 2 && o.wire == "f32";
  return has_windows ? gradients : 0;
}

namespace {

// Gradients are not the chain's where ranks share them: as backward begins sums are whole, as it goes on they are sent.
void leave_gradients_out(recompute::Chain& chain) {
  auto leave_out = [](recompute::Stage& stage) { stage.gradient_bytes = stage.held_gradient_bytes = 0; };
  leave_out(chain.before);
  leave_out(chain.after);
  std::ranges::for_each(chain.stages, leave_out);
}

// The fastest plan of a chain that was measured with all whole, whose step is predicted to take at most `budget` where ranks share.
recompute::Plan plan_of_shared(const recompute::Chain& chain, size_t budget,
                               const std::function<size_t(const recompute::Plan& plan)>& peak_of) {
  // That of the chain's minimum, or each block by itself, where what is gathered for a block counts for more.
  const int64_t minimum = recompute::minimum_bytes(chain);
  recompute::Plan best = recompute::plan_rotor(chain, minimum).plan;
  size_t least = peak_of(best);
  const recompute::Plan each = recompute::plan_of(recompute::parse_strategy("full"), chain.size());
  if (const size_t bytes = peak_of(each); bytes < least) best = each, least = bytes;
  if (least > budget) recompute::detail::refuse_budget(int64_t(budget), int64_t(least), "this chain");
  // What the chain may take is moved by how far its plan's step is from the budget.
  int64_t whole = minimum + int64_t(budget - least);
  double best_seconds = HUGE_VAL;
  for (int tries = 0; tries < 3; ++tries) {
    const recompute::Planned planned = recompute::plan_rotor(chain, whole);
    const size_t bytes = peak_of(planned.plan);
    if (bytes <= budget) {
      if (planned.plan == best) break;
      if (planned.cost.seconds < best_seconds) best = planned.plan, best_seconds = planned.cost.seconds;
    }
    whole = std::max(whole + int64_t(budget) - int64_t(bytes), minimum);
  }
  return best;
}

RecomputeStrategy by_plan(recompute::Plan plan) {
  return {.kind = RecomputeStrategy::Kind::plan, .plan = std::move(plan)};
}

}  // namespace

void plan_for_budget(const TrainingOptions& o, const TrainedModel& t, distributed::ProcessGroup& group,
                     const MeasureChain& measure) {
  const RecomputeStrategy strategy = t.blocks->strategy();
  if (strategy.kind != RecomputeStrategy::Kind::automatic) return;
  t.optimizer.allocate_state();
  const int64_t sums = gradient_sums(o, own_share(o));
  const size_t gradients = gradient_bytes(t.optimizer);
  const size_t more = (sums > 1 ? size_t(sums - 1) * gradients : 0) +
                      window_bytes(o, gradients, group.device(), group.size());
  const auto measured_chain = [&] {
    std::optional<distributed::WholeWeights> whole;
    if (t.parallel) whole.emplace(*t.parallel);
    return measure(
        {.gradients = sums > 0 ? recompute::GradientMemory::held : recompute::GradientMemory::fresh,
         .later_bytes = int64_t(more)});
  };
  recompute::Chain chain;
  try {
    chain = measured_chain();
  } catch (const OutOfMemory& error) {
    fail(error.what(), unknown_fit, ", as --recompute ", o.recompute, " measures blocks with all of --batch ",
         o.batch, ", which does not fit; give a smaller one");
  }
  const bool shares = shares_steps(o, t);
  if (shares && o.zero >= 2) leave_gradients_out(chain);
  const auto shared_peak = [&](const recompute::Plan& plan) {
    return SharedMemory(o, t, group.device()).measure(by_plan(plan), o.trainer.accumulate).peak(o.batch);
  };
  const auto chosen = [&]() -> recompute::Plan {
    if (!shares || strategy.memory_percent)
      return recompute::plan_rotor(chain, recompute::budget_of(strategy, chain)).plan;
    // What does not fit on rank 0 is told by it alone.
    return group.rank() == 0 ? plan_of_shared(chain, strategy.memory_budget, shared_peak)
                             : recompute::plan_none(chain.size());
  };
  const recompute::Plan plan = of_first_rank(chosen(), group);
  t.set_recompute(by_plan(plan));
  train::report("Memory: a step is predicted to take {} of the {} it may take\n",
                format_bytes(shares ? shared_peak(plan) : size_t(simulate(plan, chain).peak_bytes)),
                strategy.memory_percent ? o.recompute.substr(o.recompute.find(':') + 1)
                                        : format_bytes(strategy.memory_budget));
}

namespace {

// How a run goes on as it was. The number of ranks is in no config.toml: leaving --ranks out is one, too.
std::string remedy_of(const std::vector<OptionChange>& changes) {
  const auto ranks = std::ranges::find(changes, "--ranks", &OptionChange::option);
  if (ranks == changes.end()) return "leave them out";
  const std::string given = "give --ranks " + ranks->was;
  return changes.size() == 1 ? given : given + " and leave the others out";
}

}  // namespace

void check_changes(const TrainingOptions& o, const std::set<std::string>& fixed, const DataDifference& data) {
  std::vector<OptionChange> changes = o.changes, unfit;
  const std::string& folder = o.trainer.run_folder;
  if (data.known && data.text.empty())
    std::erase_if(changes, [&](const OptionChange& change) { return data.options.contains(change.option); });
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(unfit),
               [&](const OptionChange& change) { return fixed.contains(change.option); });
  check(changes.empty() || o.change, "--resume: the run in ", folder,
        " was started with other options: ", to_string(changes), "; ", remedy_of(changes),
        " to go on as it was, or add --change to go on with the new ones");
  check(unfit.empty(), "--resume: the weights of ", folder, " are not for ", to_string(unfit),
        ": that cannot change; start a new run, with --init-from for the weights");
  check(data.text.empty() || o.change, "--resume: ", data.source, " is not the data that the run in ", folder,
        " was started with: ", data.text, "; give that, or add --change to go on with the new one");
}

void keep_config(const TrainingOptions& o, int64_t first_step) {
  invariant(is_first_rank(), "keep_config: rank 0 alone writes the run folder");
  const std::string &folder = o.trainer.run_folder, path = folder + "/config.toml";
  std::string before = io::exists(path) ? io::read_file(path) : "";
  if (before == o.resolved) return;
  if (o.change && !before.empty())
    io::write_file(fmt::format("{}/config-until-step-{:08}.toml", folder, first_step), before);
  io::write_file(path, o.resolved);
}

void print_run(const TrainingOptions& o, const nn::BlockStack& blocks, Device device, const std::string& rows,
               int64_t first_step) {
  if (blocks.strategy() != RecomputeStrategy())
    train::report("Recompute: {}: blocks {} (in brackets: played again in backward)\n", o.recompute,
                  to_string(blocks.recompute_plan()));
  if (train::is_pure(train::parse_precision(o.precision)))
    train::report("Precision: {}; master {}, moments {}, main gradients {}\n", o.precision, o.master,
                  o.moments, o.main_gradients);
  else if (o.precision != "f32")
    train::report("Precision: {}, with weights in f32\n", o.precision);
  train::report("Run: {} steps of {} on {} ({} threads), into {}\n", o.trainer.schedule.steps, rows,
                to_string(device), num_threads(), o.trainer.run_folder);
  train::report("{}", ranks_line(o));
  if (!o.changes.empty()) train::report("Changed: {}\n", train::for_output(to_string(o.changes)));
  if (o.trainer.resume && first_step > 0) train::report("It goes on after step {}\n", first_step);
  if (o.trainer.resume && first_step == 0)
    train::report("It has no checkpoint yet, and starts from its beginning\n");
  train::report("\n");
}

int finish(const TrainingOptions& o, const train::TrainingResult& result, double seconds,
           const std::string& program, const std::string& result_text, const std::string& judge) {
  const std::string& folder = o.trainer.run_folder;
  int64_t steps = o.trainer.schedule.steps;
  if (result.updates == 0) {
    train::report("Stopped before the first step: there is nothing to save\n");
  } else if (result.step < steps) {
    const bool needs_ranks = o.bits_of_ranks > 0 && o.ranks > 0;
    train::report("Stopped at step {} of {}; saved. Go on with: {} train --out {} --resume{}\n", result.step,
                  steps, program, folder, needs_ranks ? fmt::format(" --ranks {}", o.ranks) : "");
  } else if (result.interrupted) {
    train::report("Stopped after the last step, {}; saved. Evaluate it with: {} {} --run {}\n", steps,
                  program, judge, folder);
  } else {
    train::report("Done: step {}, {}, {}. Loss curve: {}/loss.svg\n", result.step, result_text,
                  train::format_duration(seconds), folder);
  }
  return result.interrupted ? train::interrupted_exit_code : 0;
}

std::string newest_run(const std::string& option) {
  std::string newest;
  fs::file_time_type when{};
  std::error_code ignored;
  for (const std::string& name : io::exists("runs") ? io::names_in("runs") : std::vector<std::string>()) {
    fs::path run = fs::path("runs") / name;
    if (!fs::is_directory(run, ignored) || !train::has_checkpoint(run)) continue;
    std::string config = run / "config.toml";
    if (io::exists(config) && !read_config(config).contains(option)) continue;
    auto written = fs::last_write_time(run / "checkpoints" / "LATEST", ignored);
    if (!newest.empty() && written <= when) continue;
    newest = run;
    when = written;
  }
  check(!newest.empty(), "--run is missing, and there is no trained model in runs/");
  return newest;
}

std::string run_folder_of(const std::string& weights) {
  std::error_code ignored;
  fs::path path = fs::canonical(weights, ignored);
  if (path.filename() == "model.safetensors") path = path.parent_path();
  bool is_checkpoint =
      io::exists(path / "model.safetensors") && path.parent_path().filename() == "checkpoints";
  return is_checkpoint ? path.parent_path().parent_path() : path;
}

}  // namespace reprise::apps
