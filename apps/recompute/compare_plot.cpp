// Drawing strategies.
#include "reprise/apps/recompute/compare_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/plot/svg.h"
#include "reprise/plot/xy_plot.h"

namespace reprise::apps::recompute {
namespace {

// Nothing cheaper needs less memory.
bool is_best(const std::vector<StrategyResult>& results, const StrategyResult& one) {
  return std::none_of(results.begin(), results.end(), [&](const StrategyResult& other) {
    return other.memory.peak_activations < one.memory.peak_activations && other.seconds < one.seconds;
  });
}

std::string plot(const std::vector<StrategyResult>& results) {
  plot::XyPlot plot{"peak of activations + recompute, MiB", "ms per step"};
  for (const StrategyResult& r : results)
    plot.points.push_back(
        {mib(r.memory.peak_activations), 1e3 * r.seconds, r.strategy,
         fmt::format("{}: {}, {:.1f} ms", r.strategy, in_mib(r.memory.peak_activations), 1e3 * r.seconds),
         is_best(results, r)});
  return draw(plot);
}

std::string table(const std::vector<StrategyResult>& results) {
  std::string out =
      "<table>\n<tr><th>recompute</th><th>peak memory, MiB</th><th>activations, MiB</th><th>held for "
      "backward, "
      "MiB</th><th>step, ms</th><th>memory saved, %</th><th>overhead, %</th></tr>\n";
  for (const StrategyResult& r : results) {
    out += is_best(results, r) ? "<tr class=\"best\">" : "<tr>";
    for (const std::string& text :
         {plot::escaped(r.strategy), plot::number(mib(r.memory.peak)),
          plot::number(mib(r.memory.peak_activations)), plot::number(mib(r.memory.held)),
          plot::number(1e3 * r.seconds), plot::number(saved_percent(results[0], r)),
          plot::number(overhead_percent(r))})
      out += "<td>" + text + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

double saved_percent(const StrategyResult& plain, const StrategyResult& result) {
  return percent_below(double(plain.memory.peak_activations), double(result.memory.peak_activations));
}

std::string compare_section(const std::vector<StrategyResult>& results) {
  return "<section><h2>Memory against time</h2>\n<p>Left and low is better; strong points have no other that "
         "is better in both.</p>\n" +
         plot(results) + "</section>\n<section><h2>Numbers</h2>\n" + table(results) + "</section>\n";
}

}  // namespace reprise::apps::recompute
