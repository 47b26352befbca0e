// The command line of `reprise-scale`.
#include "reprise/apps/scale/options.h"

#include <climits>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/validators.h"
#include "reprise/apps/scale/collectives.h"
#include "reprise/apps/scale/model_shape.h"
#include "reprise/core/bytes.h"
#include "reprise/train/precision.h"

namespace reprise::apps::scale {
namespace {

void add_compute(CLI::App& app, Command& c) {
  auto* group = app.add_option_group("Compute");
  auto* model =
      group->add_option("--model", c.model,
                        "gpt2_124m, gpt2_355m, gpt2_774m, gpt2_1558m, gpt_LxW (L blocks of width W), "
                        "or,\nto compare with others' runs, llama3_8b and qwen2.5_0.5b");
  model->check(parsed_by([](std::string_view name) { model_shape(std::string(name)); }));
  auto* device = group->add_option(
      "--device", c.device,
      "h100 or h200: times are assumed from what it reaches; cpu or cuda[:N]: each layer is\n"
      "measured here");
  auto* file = group->add_option("--layers", c.layers_file,
                                 "A profile that --write-layers has written, in their place");
  file->check(not_empty())->excludes(model)->excludes(device);
  group->add_option("--write-layers", c.write_layers, "File for the profile, as JSON")->check(not_empty());
  group
      ->add_option("--tflops", c.tflops, "TFLOP/s that products reach, of an assumed device (0: its default)")
      ->check(number_from_0())
      ->excludes(file);
  group
      ->add_option("--batch", c.batch,
                   "Rows of a micro-batch (0: 65,536 tokens where assumed, 2,048 where measured)")
      ->transform(whole_from(0, 1 << 20))
      ->excludes(file);
  group->add_option("--length", c.length, "Tokens a row (0: the model's context)")
      ->transform(whole_from(0, 1 << 24))
      ->excludes(file);
}

void add_training(CLI::App& app, Command& c) {
  auto* group = app.add_option_group("Training");
  group->add_option("--ranks", c.ranks, "Rank counts, from 1 to 4096")
      ->delimiter(',')
      ->transform(whole_from(1, 4096));
  group->add_option("--accumulate", c.accumulate, "Micro-batches a step over all ranks (0: one per rank)")
      ->transform(whole_from(0, 1 << 24));
  group->add_option("--precision", c.precision, "f32, bf16, f16, bf16-pure or f16-pure")
      ->check(parsed_by(train::parse_precision));
  group->add_option("--recompute", c.recompute, "none or full")->check(CLI::IsMember({"none", "full"}));
  group
      ->add_option("--zero", c.zero,
                   "ZeRO's stage; 3 as FSDP2 has it, which shares what is around the blocks too")
      ->transform(whole_from(0, 3));
  group
      ->add_option("--reduce", c.reduce,
                   "tree: Reprise's sum, the same bits on any ranks; fast: the quickest of NCCL's ring, "
                   "nccl-tree and nvls;\n"
                   "or one of these three")
      ->check(parsed_by(parse_reduce));
  group->add_option("--wire", c.wire, "Gradients are sent as f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}));
  group->add_option("--bucket-size", c.bucket_size, "Of all buckets but the first, which has at most 1MiB")
      ->check(parsed_by(parse_bytes));
}

void add_machine(CLI::App& app, Command& c) {
  auto* group = app.add_option_group("Machine");
  group
      ->add_option("--links", c.links, "nvlink4 or gloo (default: gloo with --device cpu, otherwise nvlink4)")
      ->check(CLI::IsMember({"nvlink4", "gloo"}));
  group->add_option("--per-node", c.per_node, "Ranks a node")->transform(whole_from(1, 4096));
  group
      ->add_option("--network", c.network,
                   "Gb/s of each rank's network card (0: 400 with nvlink4, 10 with gloo)")
      ->check(number_from_0());
  group
      ->add_option("--node-bandwidth", c.node_bandwidth,
                   "GB/s that a rank reaches within its node (0: the links' own)")
      ->check(number_from_0());
  group->add_option("--spread", c.spread, "Standard deviation of the ranks' compute times, in percent")
      ->check(number_from_0());
  group->add_option("--seed", c.seed, "Of the ranks' compute times")->transform(whole_from(0));
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  Command command;
  CLI::App app(
      "reprise-scale: simulates a data-parallel training step on 1 to 4,096 ranks. It measures nothing but, "
      "with\n"
      "--device cpu or cuda, the layers of one rank.",
      "reprise-scale");
  app.option_defaults()->always_capture_default();
  app.get_formatter()->column_width(34);
  add_compute(app, command);
  add_training(app, command);
  add_machine(app, command);
  app.add_flag("--json", command.json, "Print JSON in the table's place");
  parse_arguments(app, argc, argv);
  return command;
}

}  // namespace reprise::apps::scale
