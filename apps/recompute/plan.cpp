// reprise-recompute plan: what the planner finds for each memory budget, and for the one that is given.
#include <fmt/core.h>

#include <cmath>

#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/core/bytes.h"
#include "reprise/io/atomic_file.h"
#include "reprise/plot/page.h"
#include "reprise/plot/svg.h"
#include "reprise/plot/xy_plot.h"
#include "reprise/train/made_folders.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

using reprise::recompute::Chain;
using reprise::recompute::Planned;

constexpr size_t most_rows = 16;

std::string describe(const Planned& planned) {
  return fmt::format("{:>12.1f} MiB{:>10.1f} ms   {}", mib(planned.cost.peak_bytes),
                     1e3 * planned.cost.seconds, reprise::recompute::to_string(planned.plan));
}

// At most `most_rows`, the first and the last among them.
std::vector<Planned> thinned(const std::vector<Planned>& plans) {
  if (plans.size() <= most_rows) return plans;
  std::vector<Planned> kept;
  for (size_t i = 0; i < most_rows; ++i) kept.push_back(plans[i * (plans.size() - 1) / (most_rows - 1)]);
  return kept;
}

// Trains by the plan: its peak, which the prediction is held against, and its time.
void try_plan(Trainee& trainee, const Workload& workload, const Planned& planned, int64_t rounds) {
  Batch batch = workload.batch(0, workload.rows);
  trainee.model.blocks.set_recompute(planned.plan);
  Allocator& memory = allocator(workload.device);
  memory.reset_peaks();
  trainee.step(0, batch);
  size_t peak = memory.stats().peak_held;
  std::vector<double> seconds;
  for (int64_t round = 0; round < rounds; ++round) seconds.push_back(trainee.step(round, batch));
  double off = 100 * std::abs(double(planned.cost.peak_bytes) / double(peak) - 1);
  train::print("measured:     {:>12.1f} MiB   {}   the predicted peak is {:.2f} % off\n", mib(peak),
               in_ms(nn::spread_of(seconds)), off);
}

std::string plan_page(const Workload& workload, const Chain& chain, const std::vector<Planned>& plans,
                      const Planned* chosen) {
  plot::XyPlot plot{"peak memory, MiB", "ms per step, predicted"};
  for (const Planned& planned : plans)
    plot.line.emplace_back(mib(planned.cost.peak_bytes), 1e3 * planned.cost.seconds);
  auto add = [&](const Planned& planned, const std::string& label, bool strong) {
    plot.points.push_back({mib(planned.cost.peak_bytes), 1e3 * planned.cost.seconds, label,
                           reprise::recompute::to_string(planned.plan), strong});
  };
  for (const char* strategy : {"none", "full", "sqrt"}) {
    Planned uniform{reprise::recompute::plan_of(parse_strategy(strategy), chain.size())};
    uniform.cost = simulate(uniform.plan, chain);
    add(uniform, strategy, false);
  }
  if (chosen) add(*chosen, "chosen", true);
  std::string rows = "<table>\n<tr><th>peak, MiB</th><th>step, ms</th><th>plan</th></tr>\n";
  for (const Planned& planned : plans) {
    bool is_chosen = chosen && planned.plan == chosen->plan;
    rows += std::string(is_chosen ? "<tr class=\"best\">" : "<tr>") + "<td>" +
            in_mib(planned.cost.peak_bytes) + "</td><td>" + two_digits(1e3 * planned.cost.seconds) +
            "</td><td class=\"text\">" + plot::escaped(reprise::recompute::to_string(planned.plan)) +
            "</td></tr>\n";
  }
  return plot::page(
      "Recompute plans", workload.to_string(),
      "<section><h2>The fastest step for each memory budget</h2>\n<p>Weights, optimizer state, gradients "
      "and data are part of the memory.</p>\n" +
          draw(plot) +
          "</section>\n<section><h2>Plans</h2>\n<p>Blocks in brackets are recomputed, one region "
          "a bracket.</p>\n" +
          rows + "</table>\n</section>\n");
}

}  // namespace

int run_plan(const PlanCommand& c) {
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  const Prepared unplanned = prepared_for(with_predictor("none", c.workload), workload);
  train::MadeFolders out = train::under_option("--out", [&] { return train::MadeFolders(c.workload.out); });
  train::print("{}\n\n", workload.to_string());
  Trainee trainee(workload);
  trainee.set_recompute(unplanned);
  Batch batch = workload.batch(0, workload.rows);
  trainee.step(0, batch);  // makes the optimizer's moments
  Chain chain = trainee.model.profile(batch.input);
  std::vector<Planned> plans = thinned(reprise::recompute::frontier(chain));
  train::print("predicted         peak memory          step   plan: blocks in brackets are recomputed\n");
  for (const Planned& planned : plans) train::print("{:14}{}\n", "", describe(planned));
  std::optional<Planned> chosen;
  if (!c.recompute.empty()) {
    const int64_t budget = reprise::recompute::budget_of(parse_strategy(c.recompute), chain);
    chosen = reprise::recompute::plan_rotor(chain, budget);
    train::print("\nfor {:<10}{}\n", c.recompute, describe(*chosen));
    try_plan(trainee, workload, *chosen, c.rounds);
  }
  std::string html = c.workload.out + "/plan.html";
  io::write_file(html, plan_page(workload, chain, plans, chosen ? &*chosen : nullptr));
  train::print("\nwritten to {}\n", html);
  return 0;
}

}  // namespace reprise::apps::recompute
