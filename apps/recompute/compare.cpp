// reprise-recompute compare: what each strategy needs, as a table, a page and JSON.

#include "reprise/apps/recompute/compare_plot.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/bytes.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"
#include "reprise/plot/page.h"
#include "reprise/train/made_folders.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

// Those that the model has.
std::vector<std::string> all_strategies(const Workload& workload) {
  std::vector<std::string> all = {"none", "full", "selective", "selective:save_attention",
                                  "selective:save_matmuls"};
  for (const char* strategy : {"every:2", "every:3", "keep:3"})
    if (parse_strategy(strategy).count <= workload.blocks) all.push_back(strategy);
  all.insert(all.end(), {"sqrt", "offload", "offload:recompute_cheap", "auto:25%", "auto:50%"});
  return all;
}

void print_table(const std::vector<nn::StrategyCost>& costs) {
  size_t longest = 24;
  for (const nn::StrategyCost& c : costs) longest = std::max(longest, c.strategy.size());
  train::print("{:<{}}{:>14}{:>14}{:>14}{:>26}{:>10}{:>10}\n", "recompute", longest + 2, "peak memory",
               "activations", "held", "step (least to most)", "saved", "overhead");
  for (const nn::StrategyCost& c : costs)
    train::print("{:<{}}{:>14}{:>14}{:>14}{:>26}{:>8.1f} %{:>8.1f} %\n", c.strategy, longest + 2,
                 format_bytes(c.peak), format_bytes(c.peak_activations), format_bytes(c.held),
                 in_ms(c.seconds), saved_percent(costs[0], c), overhead_percent(c));
  train::print(
      "\nactivations: the peak of activations and recompute; held: of these, between forward and backward;\n"
      "step: the median; saved: of activations, against {}; overhead: of the step's time\n",
      costs[0].strategy);
}

std::string as_json(const Workload& workload, const std::vector<nn::StrategyCost>& costs) {
  std::string out = "{\"workload\":" + io::json_quote(workload.to_string()) + ",\"strategies\":[\n";
  for (size_t i = 0; i < costs.size(); ++i) {
    const nn::StrategyCost& c = costs[i];
    out += std::string(i ? ",\n" : "") + "{\"strategy\":" + io::json_quote(c.strategy) +
           ",\"peak_bytes\":" + std::to_string(c.peak) +
           ",\"peak_activation_bytes\":" + std::to_string(c.peak_activations) +
           ",\"held_bytes\":" + std::to_string(c.held) +
           ",\"seconds_per_step\":" + io::json_number(c.seconds.median) +
           ",\"least_seconds\":" + io::json_number(c.seconds.least) +
           ",\"most_seconds\":" + io::json_number(c.seconds.most) +
           ",\"saved_percent\":" + io::json_number(saved_percent(costs[0], c)) +
           ",\"overhead_percent\":" + io::json_number(overhead_percent(c)) + "}";
  }
  return out + "\n]}\n";
}

}  // namespace

int run_compare(const CompareCommand& c) {
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  train::MadeFolders out = train::under_option("--out", [&] { return train::MadeFolders(c.workload.out); });
  std::vector<std::string> strategies = c.recompute.empty() ? all_strategies(workload) : c.recompute;
  for (std::string& strategy : strategies) strategy = with_predictor(strategy, c.workload);
  if (strategies[0] != "none") strategies.insert(strategies.begin(), "none");
  for (const std::string& strategy : strategies) check_strategy(strategy, workload);
  train::print("{}\n{} rounds in turns\n\n", workload.to_string(), c.rounds);
  Trainee trainee(workload);
  const Batch batch = workload.batch(0, workload.rows);
  trainee.step(0, batch);  // makes the optimizer's moments
  const std::vector<nn::StrategyCost> costs =
      measure(trainee, strategies, prepare_all(trainee, strategies, batch), batch, c.rounds);
  print_table(costs);
  std::string html = c.workload.out + "/compare.html", json = c.workload.out + "/compare.json";
  io::write_file(html, plot::page("Recompute strategies", workload.to_string(), compare_section(costs)));
  io::write_file(json, as_json(workload, costs));
  train::print("written to {} and {}\n", html, json);
  return 0;
}

}  // namespace reprise::apps::recompute
