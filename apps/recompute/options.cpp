// The command line of `reprise-recompute`.
#include "reprise/apps/recompute/options.h"

#include <climits>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/bytes.h"
#include "reprise/core/device.h"
#include "reprise/train/precision.h"

namespace reprise::apps::recompute {
namespace {

constexpr const char* strategy_help =
    "none, full, selective, selective:POLICY, every:N, keep:N, segments:N, sqrt,\n"
    "layers:I,J,..., offload, offload:POLICY, 'plan:[0-2] 3', auto:300MiB (the planner's plan for that "
    "memory) or\n"
    "auto:50% (halfway between the least memory and what none needs)";

// A program that trains finds its batch with auto; here that is a command of its own.
CLI::Validator batch_size() {
  auto complaint = [number = whole_from(0)](std::string& text) {
    return text == "auto" ? std::string("auto is for programs that train: here `max-batch` finds the largest")
                          : number(text);
  };
  return {complaint, ""};
}

void add_shapes(CLI::App& app, WorkloadOptions& o) {
  auto* model = app.add_option_group("Model");
  auto number = [&](CLI::Option_group* group, const char* option, int64_t& value, const char* help) {
    group->add_option(option, value, std::string(help) + " (0: the preset's)")->transform(whole_from(0));
  };
  std::string names;
  for (const std::string& name : model_names()) names += (names.empty() ? "" : ", ") + name;
  model->add_option("--model", o.model, "A preset, of which the options below change what it has: " + names);
  number(model, "--layers", o.layers, "Transformer blocks");
  number(model, "--width", o.width, "Size of the residual stream; channels of a convolutional first stage");
  number(model, "--heads", o.heads, "Attention heads a block");
  number(model, "--context", o.context, "Tokens a GPT can see");
  number(model, "--vocab-size", o.vocab_size, "Size of a GPT's vocabulary");
  number(model, "--patch", o.patch, "Pixels of a Vit's patch, a side");
  number(model, "--classes", o.classes, "Classes of images or, for a UNet, of pixels");
  model->add_option("--dropout", o.dropout, "Probability of dropout")->check(probability());
  model->add_option("--drop-path", o.drop_path, "Stochastic depth of a Vit's last block")
      ->check(probability());
  model
      ->add_option("--recompute-predictor", o.recompute_predictor,
                   "Strategy of a JEPA's predictor (default: as --recompute; with auto and plan: none)")
      ->check(parsed_by(parse_strategy));
  auto* data = app.add_option_group("Data");
  data->add_option("--batch", o.batch, "Sequences or images a step (0: the preset's)")
      ->transform(batch_size());
  number(data, "--length", o.length, "Tokens a sequence, at most the context");
  number(data, "--image", o.image, "Pixels of an image, a side");
  data->add_option("--data", o.data, "A text for a GPT, by characters (without it: random tokens)")
      ->check(not_empty());
  data->add_option("--seed", o.seed, "Seed of weights, data and dropout")->transform(whole_from(0));
  data->add_option(
          "--precision", o.precision,
          "f32; bf16 or f16: products in 16 bits, weights in f32; bf16-pure or f16-pure: weights in\n"
          "16 bits, with copies and gradients in f32")
      ->check(parsed_by(train::parse_precision));
}

// Of a workload that is computed.
void add_machine(CLI::App& app, WorkloadOptions& o) {
  auto* run = app.add_option_group("Run");
  run->add_option("--device", o.device, "cpu, cuda, cuda:N or best: the GPU if there is one")
      ->check(parsed_by(Device::parse));
  run->add_option("--threads", o.threads, "Threads (0: one a CPU); no bit depends on it")
      ->transform(whole_from(0, INT_MAX));
}

void add_workload(CLI::App& app, WorkloadOptions& o) {
  add_shapes(app, o);
  add_machine(app, o);
}

void add_out(CLI::App& app, WorkloadOptions& o, const char* files) {
  o.out = "runs/recompute";
  app.add_option("--out", o.out, std::string("Folder for ") + files)->check(not_empty());
}

void add_verify(CLI::App& app, VerifyCommand& o) {
  auto* verify = app.add_subcommand("verify", "Train with and without recompute; every bit must be the same");
  add_workload(*verify, o.workload);
  verify->add_option("--recompute", o.recompute, strategy_help);
  verify->add_option("--steps", o.steps, "Updates")->transform(whole_from(1));
}

void add_compare(CLI::App& app, CompareCommand& o) {
  auto* compare = app.add_subcommand("compare", "Memory and time of the strategies, as a table and a plot");
  add_workload(*compare, o.workload);
  compare->add_option("--recompute", o.recompute, "Strategies to compare (default: all)");
  compare->add_option("--rounds", o.rounds, "Timed steps of each, in turns")->transform(whole_from(1));
  add_out(*compare, o.workload, "compare.html and compare.json");
}

void add_max_batch(CLI::App& app, MaxBatchCommand& o) {
  auto* max_batch = app.add_subcommand("max-batch", "The largest batch that a memory limit has room for");
  add_workload(*max_batch, o.workload);
  max_batch->add_option("--recompute", o.recompute, "As for verify, without auto");
  max_batch
      ->add_option("--memory-limit", o.memory_limit,
                   "Memory for tensors, such as 2GiB, of which a tenth stays free")
      ->required()
      ->check(parsed_by(parse_bytes));
  max_batch->add_option("--largest", o.largest, "Where the search ends")->transform(whole_from(1));
  max_batch->add_option("--steps", o.steps, "Timed steps at the largest batch")->transform(whole_from(1));
}

void add_profile(CLI::App& app, ProfileCommand& o) {
  auto* profile = app.add_subcommand("profile", "Memory over one training step, as a page and a trace");
  add_workload(*profile, o.workload);
  profile->add_option("--recompute", o.recompute, strategy_help);
  add_out(*profile, o.workload, "profile.html and profile.trace.json");
}

void add_plan(CLI::App& app, PlanCommand& o) {
  auto* plan =
      app.add_subcommand("plan", "Plans by memory budget: the fastest for each, and the one for yours");
  add_workload(*plan, o.workload);
  plan->add_option("--recompute", o.recompute,
                   "auto:2GiB, the plan for that memory of a step, or auto:50% (without it: all plans)")
      ->check(parsed_by([](std::string_view text) {
        check(parse_strategy(text).kind == RecomputeStrategy::Kind::automatic, "'", text,
              "' is no budget for a plan, such as auto:2GiB");
      }));
  add_former_option(*plan, "--memory-budget", "the budget is part of --recompute, as auto:2GiB");
  plan->add_option("--rounds", o.rounds, "Timed steps of the plan for the budget")->transform(whole_from(1));
  add_out(*plan, o.workload, "plan.html");
}

void add_storage(CLI::App& app, StorageOptions& o) {
  app.add_option("--master", o.master, "As for the programs that train: f32, split or stochastic")
      ->check(CLI::IsMember({"f32", "split", "stochastic"}));
  app.add_option("--moments", o.moments, "As for the programs that train: f32, bf16 or u8")
      ->check(CLI::IsMember({"f32", "bf16", "u8"}));
}

void add_explain(CLI::App& app, ExplainCommand& o) {
  auto* explain = app.add_subcommand("explain", "What a step holds: dtypes and bytes, layer by layer");
  add_workload(*explain, o.workload);
  add_storage(*explain, o.storage);
}

void add_memory(CLI::App& app, MemoryCommand& o) {
  auto* memory = app.add_subcommand(
      "memory", "What training takes on a rank, by shapes alone: for machines that are not here");
  add_shapes(*memory, o.workload);
  o.workload.device = "cpu";
  memory->add_option("--recompute", o.recompute, "Strategies, without auto and offload");
  memory->add_option("--ranks", o.ranks, "Ranks of the job")->transform(whole_from(1, 65536));
  memory
      ->add_option(
          "--zero", o.zero,
          "What they share: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 the weights of blocks "
          "too")
      ->check(CLI::IsMember({0, 1, 2, 3}));
  memory->add_option("--accumulate", o.accumulate, "Micro-batches of --batch rows per update and rank")
      ->transform(whole_from(1, 65536));
  memory->add_option("--optimizer", o.optimizer, "adamw, or sgd with momentum")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  add_storage(*memory, o.storage);
  memory
      ->add_option("--memory-limit", o.memory_limit,
                   "Memory for tensors, such as 80GiB, of which a tenth stays free: the batch\nthat fits")
      ->check(parsed_by(parse_bytes));
}

}  // namespace

void check_storage(const StorageOptions& storage, const std::string& precision) {
  const train::Precision parsed = train::parse_precision(precision);
  check(storage.master == "f32" || parsed == train::Precision::bf16_pure, "--master ", storage.master,
        " is for --precision bf16-pure, not ", precision);
  check(storage.moments == "f32" || train::is_pure(parsed), "--moments ", storage.moments,
        " is for a pure --precision, not ", precision);
}

Command parse_command_line(int argc, char** argv) {
  Command command;
  CLI::App app("reprise-recompute: what recompute saves, what it costs, and that it changes no bit",
               "reprise-recompute");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_verify(app, command.verify);
  add_compare(app, command.compare);
  add_max_batch(app, command.max_batch);
  add_profile(app, command.profile);
  add_plan(app, command.plan);
  add_explain(app, command.explain);
  add_memory(app, command.memory);
  parse_arguments(app, argc, argv);
  using Kind = Command::Kind;
  if (app.got_subcommand("compare")) command.kind = Kind::compare;
  if (app.got_subcommand("max-batch")) command.kind = Kind::max_batch;
  if (app.got_subcommand("profile")) command.kind = Kind::profile;
  if (app.got_subcommand("plan")) command.kind = Kind::plan;
  if (app.got_subcommand("explain")) command.kind = Kind::explain;
  if (app.got_subcommand("memory")) command.kind = Kind::memory;
  return command;
}

}  // namespace reprise::apps::recompute
