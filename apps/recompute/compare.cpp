// reprise-recompute compare: what each strategy needs, as a table, a page and JSON.

#include "reprise/apps/recompute/compare_plot.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
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
  for (int64_t every : {2, 3})
    if (every <= workload.blocks) all.push_back("every:" + std::to_string(every));
  all.insert(all.end(), {"sqrt", "offload", "offload:recompute_cheap", "auto:25%", "auto:50%"});
  return all;
}

void print_table(const std::vector<StrategyResult>& results) {
  train::print("{:<26}{:>14}{:>14}{:>14}{:>13}{:>10}{:>10}\n", "recompute", "peak memory", "activations",
               "held", "step", "saved", "overhead");
  for (const StrategyResult& result : results)
    train::print("{:<26}{:>14}{:>14}{:>14}{:>10.1f} ms{:>8.1f} %{:>8.1f} %\n", result.strategy,
                 in_mib(result.memory.peak), in_mib(result.memory.peak_activations),
                 in_mib(result.memory.held), 1e3 * result.seconds, saved_percent(results[0], result),
                 overhead_percent(result));
  train::print(
      "\nactivations: the peak of activations and recompute; held: of these, between forward and backward;\n"
      "saved: of activations, against {}; overhead: of the step's time\n",
      results[0].strategy);
}

std::string as_json(const Workload& workload, const std::vector<StrategyResult>& results) {
  std::string out = "{\"workload\":" + io::json_quote(workload.to_string()) + ",\"strategies\":[\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const StrategyResult& r = results[i];
    out += std::string(i ? ",\n" : "") + "{\"strategy\":" + io::json_quote(r.strategy) +
           ",\"peak_bytes\":" + std::to_string(r.memory.peak) +
           ",\"peak_activation_bytes\":" + std::to_string(r.memory.peak_activations) +
           ",\"held_bytes\":" + std::to_string(r.memory.held) +
           ",\"seconds_per_step\":" + io::json_number(r.seconds) +
           ",\"saved_percent\":" + io::json_number(saved_percent(results[0], r)) +
           ",\"overhead_percent\":" + io::json_number(overhead_percent(r)) + "}";
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
  std::vector<StrategyResult> results = measure(workload, strategies, c.rounds);
  print_table(results);
  std::string html = c.workload.out + "/compare.html", json = c.workload.out + "/compare.json";
  io::write_file(html, plot::page("Recompute strategies", workload.to_string(), compare_section(results)));
  io::write_file(json, as_json(workload, results));
  train::print("written to {} and {}\n", html, json);
  return 0;
}

}  // namespace reprise::apps::recompute
