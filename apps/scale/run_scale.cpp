// What the options mean: a scenario, simulated for each rank count.
#include <fmt/core.h>

#include <algorithm>

#include "reprise/apps/scale/options.h"
#include "reprise/apps/scale/report.h"
#include "reprise/core/bytes.h"
#include "reprise/io/atomic_file.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/precision.h"

namespace reprise::apps::scale {
namespace {

bool is_measured_here(const Command& c) { return c.device == "cpu" || c.device.starts_with("cuda"); }

StepProfile profile_of(const Command& c) {
  if (!c.layers_file.empty())
    return train::under_option("--layers", [&] { return profile_from_json(c.layers_file); });
  const ModelShape shape = model_shape(c.model);
  const bool here = is_measured_here(c);
  check(!here || c.tflops == 0, "--tflops is of an assumed device; --device ", c.device, " is measured");
  const int64_t length = c.length > 0 ? c.length : shape.context;
  const int64_t rows = c.batch > 0 ? c.batch : std::max<int64_t>(1, (here ? 2048 : 65536) / length);
  const train::Precision precision = train::parse_precision(c.precision);
  if (here) {
    const Device device = train::under_option("--device", [&] { return Device::parse(c.device); });
    const train::PrecisionScope scope(precision, device);
    return measured_profile(shape, {rows, length}, c.device, c.precision);
  }
  DeviceSpeed speed = device_speed(c.device);
  if (c.tflops > 0) speed.flops_16 = speed.flops_32 = c.tflops * 1e12;
  return assumed_profile(shape, {rows, length}, speed, precision != train::Precision::f32,
                         train::is_pure(precision));
}

TrainingPlan plan_of(const Command& c) {
  const train::Precision precision = train::parse_precision(c.precision);
  TrainingPlan plan{.zero = c.zero, .micro_batches = c.accumulate, .recomputes = c.recompute == "full"};
  if (train::is_pure(precision)) {
    plan.weight_bytes = 2;
    plan.optimizer_bytes = 12;
  }
  if (precision != train::Precision::f32) plan.compute_bytes = 2;
  if (c.wire == "bf16") plan.wire_bytes = 2;
  plan.buckets.bytes = int64_t(parse_bytes(c.bucket_size));
  plan.buckets.first_bytes = std::min(plan.buckets.first_bytes, plan.buckets.bytes);
  return plan;
}

double network_of(const Command& c, bool is_gloo) { return c.network > 0 ? c.network : is_gloo ? 10 : 400; }

}  // namespace

int run_scale(const Command& c) {
  const bool is_gloo = c.links.empty() ? c.layers_file.empty() && c.device == "cpu" : c.links == "gloo";
  const double network = network_of(c, is_gloo);
  for (int ranks : c.ranks) {  // before what takes time
    place(ranks, c.per_node);
    rank_share(plan_of(c), ranks);
  }
  Scenario scenario{.profile = profile_of(c),
                    .plan = plan_of(c),
                    .links = (is_gloo ? gloo : nvlink4)(c.per_node, network),
                    .reduce = parse_reduce(c.reduce),
                    .stragglers = {c.spread / 100, uint64_t(c.seed)}};
  if (c.node_bandwidth > 0) scenario.links.node_bandwidth = c.node_bandwidth * 1e9;
  if (!c.write_layers.empty()) io::write_file(c.write_layers, profile_to_json(scenario.profile));
  std::vector<ScaleRow> rows;
  for (int ranks : c.ranks) rows.push_back(scale_row(scenario, ranks));
  Wording wording{
      .batch = fmt::format("{} tokens per micro-batch, {}", scenario.profile.tokens,
                           c.accumulate > 0 ? fmt::format("{} of them over all ranks", c.accumulate)
                                            : std::string("one per rank")),
      .precision = c.precision,
      .reduce = c.reduce,
      .network = fmt::format("{:g} Gb/s per rank", network)};
  if (c.layers_file.empty() && !is_measured_here(c))
    wording.memory_limit = device_speed(c.device).memory_bytes;
  train::print_text(c.json ? to_json(scenario, rows, wording) : to_table(scenario, rows, wording));
  return 0;
}

}  // namespace reprise::apps::scale
