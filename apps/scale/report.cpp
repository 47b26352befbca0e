#include "reprise/apps/scale/report.h"

#include <fmt/core.h>

#include "reprise/core/bytes.h"
#include "reprise/io/json.h"

namespace reprise::apps::scale {
namespace {

constexpr double worth_naming = 0.02;  // of a step

std::string limit_of(const Scenario& s, const Collectives& collectives, Placement placement,
                     const StepTimes& times) {
  auto step = [&](Counted counted) {
    return simulate_step(s.profile, s.plan, collectives, placement.ranks, 1, counted).step;
  };
  const double even = step({}), alone = step({.latency = false, .transfer = false});
  const double stragglers = times.step - even, communication = even - alone;
  if (stragglers + communication < worth_naming * times.step) return "compute";
  if (stragglers >= communication) return "stragglers";
  const double by_latency = even - step({.latency = false}), by_transfer = even - step({.transfer = false});
  if (by_latency > by_transfer) return "latency";
  if (times.last_bucket > communication / 2) return "last bucket";
  return placement.nodes > 1 ? "network" : "bandwidth";
}

double tokens_per_second(const Scenario& s, int ranks, const StepTimes& times) {
  return double(s.profile.tokens) * double(rank_share(s.plan, ranks).micro_batches) / times.step;
}

std::string in_gib(double bytes) { return fmt::format("{:.2f}", bytes / double(1 << 30)); }

std::string described(const Scenario& s, const Wording& w) {
  return fmt::format(
      "SIMULATED, not measured: a training step of {}, {}, {}, ZeRO {}{}, --reduce {}\n"
      "compute   {}; spread over ranks {:g} %\n"
      "links     {}: {:.4g} GB/s per rank in a node of {}, {:.3g} GB/s between nodes ({})\n",
      s.profile.model, w.batch, w.precision, s.plan.zero,
      s.plan.zero == 3 ? " (as FSDP2 does it, which shares what is around the blocks too)" : "", w.reduce,
      s.profile.origin, 100 * s.stragglers.spread, s.links.name, s.links.node_bandwidth / 1e9,
      s.links.per_node, s.links.network_bandwidth / 1e9, w.network);
}

}  // namespace

ScaleRow scale_row(const Scenario& s, int ranks) {
  const Placement placement = place(ranks, s.links.per_node);
  const Collectives collectives(s.links, placement, s.reduce);
  ScaleRow row{.placement = placement, .slowest = slowest_of(ranks, s.stragglers)};
  row.times = simulate_step(s.profile, s.plan, collectives, ranks, row.slowest);
  row.tokens_per_second = tokens_per_second(s, ranks, row.times);
  const Collectives none(s.links, {}, s.reduce);
  const StepTimes alone = simulate_step(s.profile, s.plan, none, 1);
  row.efficiency = row.tokens_per_second / tokens_per_second(s, 1, alone);
  row.memory = rank_memory(s.profile, s.plan, ranks);
  row.limit = limit_of(s, collectives, placement, row.times);
  return row;
}

std::string validation() {
  return fmt::format(
      "held against published figures of other programs on H100: efficiency within {:g} points (torchtitan, "
      "8 to 128 GPUs; LLMQ, "
      "1 to 8), all-reduce within {:g} % (nccl-tests, 8); steps within {:g} % of runs of Reprise "
      "on 2 and 4 ranks of a CPU over 100 to 400 Mbit/s; not against runs of Reprise on GPUs",
      validated_efficiency_points, validated_bandwidth_percent, validated_step_percent);
}

std::string to_table(const Scenario& s, const std::vector<ScaleRow>& rows, const Wording& w) {
  std::string text = described(s, w);
  text += fmt::format("\n{:>6}{:>7}{:>12}{:>10}{:>13}{:>12}   {:>39}   {}\n", "ranks", "nodes", "step",
                      "exposed", "tokens/s", "efficiency", "memory per rank, GiB", "limit");
  text += fmt::format("{:>6}{:>7}{:>12}{:>10}{:>13}{:>12}   {:>8}{:>7}{:>8}{:>8}{:>8}\n", "", "", "ms",
                      "% of step", "per rank", "% of one", "weights", "grads", "optim", "activ", "total");
  bool too_large = false;
  for (const ScaleRow& r : rows) {
    const bool over = w.memory_limit > 0 && r.memory.total() > w.memory_limit;
    too_large |= over;
    text += fmt::format("{:>6}{:>7}{:>12.2f}{:>10.1f}{:>13.0f}{:>12.1f}   {:>8}{:>7}{:>8}{:>8}{:>8}{}  {}\n",
                        r.placement.ranks, r.placement.nodes, 1e3 * r.times.step,
                        100 * r.times.exposed() / r.times.step, r.tokens_per_second, 100 * r.efficiency,
                        in_gib(r.memory.weights), in_gib(r.memory.gradients), in_gib(r.memory.optimizer),
                        in_gib(r.memory.activations), in_gib(r.memory.total()), over ? "*" : " ", r.limit);
  }
  text += fmt::format(
      "\nThe total has the buckets on their way too; exposed: of the step, computation waits for "
      "communication.\n");
  if (too_large) text += fmt::format("* more than the {} of the device\n", format_bytes(w.memory_limit));
  return text + "Error: " + validation() + ".\n";
}

std::string to_json(const Scenario& s, const std::vector<ScaleRow>& rows, const Wording& w) {
  using io::json_number, io::json_quote;
  std::string text =
      "{\"simulation\": true, \"error\": " + json_quote(validation()) +
      ",\n \"model\": " + json_quote(s.profile.model) + ", \"compute\": " + json_quote(s.profile.origin) +
      ", \"compute_measured\": " + (s.profile.is_measured ? "true" : "false") +
      ",\n \"links\": " + json_quote(s.links.name) + ", \"batch\": " + json_quote(w.batch) +
      ", \"precision\": " + json_quote(w.precision) + ", \"zero\": " + std::to_string(s.plan.zero) +
      ", \"reduce\": " + json_quote(w.reduce) + ",\n \"rows\": [";
  for (size_t i = 0; i < rows.size(); ++i) {
    const ScaleRow& r = rows[i];
    auto member = [](const char* name, double value) {
      return fmt::format(", \"{}\": {}", name, json_number(value));
    };
    text += fmt::format("{}\n  {{\"ranks\": {}, \"nodes\": {}", i == 0 ? "" : ",", r.placement.ranks,
                        r.placement.nodes) +
            member("step_seconds", r.times.step) + member("exposed_comm_seconds", r.times.exposed()) +
            member("tokens_per_second_per_rank", r.tokens_per_second) + member("efficiency", r.efficiency) +
            member("slowest_rank", r.slowest) +
            ",\n   \"bytes_per_rank\": {\"total\": " + json_number(r.memory.total()) +
            member("weights", r.memory.weights) + member("gradients", r.memory.gradients) +
            member("optimizer", r.memory.optimizer) + member("activations", r.memory.activations) +
            member("buckets", r.memory.buckets) + "}, \"limit\": " + json_quote(r.limit) + "}";
  }
  return text + "]}\n";
}

}  // namespace reprise::apps::scale
