// What the simulator says of each rank count, as a table and as JSON.
#pragma once

#include "reprise/apps/scale/schedule.h"
#include "reprise/apps/scale/stragglers.h"

namespace reprise::apps::scale {

/// All that a simulation depends on.
struct Scenario {
  StepProfile profile;
  TrainingPlan plan{};
  Links links;
  Reduce reduce = Reduce::tree;
  Stragglers stragglers{};
};

struct ScaleRow {
  Placement placement{};
  StepTimes times{};
  double tokens_per_second = 0;  ///< per rank
  double efficiency = 0;         ///< tokens per second and rank, of those of one rank alone
  double slowest = 1;            ///< the slowest rank's compute beside the mean
  RankMemory memory{};
  /// "compute", where less than 2 % of the step are lost; otherwise what most is lost to: "stragglers", "latency", "last bucket",
  /// "bandwidth" within the node, or "network".
  std::string limit{};
};
ScaleRow scale_row(const Scenario& scenario, int ranks);

/// What the simulator has been held against, and how far it was off: stands on every page of output. Tests hold the figures.
inline constexpr double validated_efficiency_points = 3, validated_bandwidth_percent = 3,
                        validated_step_percent = 10;
std::string validation();

/// How the run is described, beside its numbers.
struct Wording {
  std::string batch, precision, reduce, network;
  double memory_limit = 0;  ///< of the device; 0: unknown
};
std::string to_table(const Scenario& scenario, const std::vector<ScaleRow>& rows, const Wording& wording);
std::string to_json(const Scenario& scenario, const std::vector<ScaleRow>& rows, const Wording& wording);

}  // namespace reprise::apps::scale
