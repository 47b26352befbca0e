// Drawing strategies.
#include "reprise/apps/recompute/compare_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/core/bytes.h"
#include "reprise/plot/svg.h"
#include "reprise/plot/xy_plot.h"

namespace reprise::apps::recompute {
namespace {

// Nothing cheaper needs less memory.
bool is_best(const std::vector<nn::StrategyCost>& costs, const nn::StrategyCost& one) {
  return std::none_of(costs.begin(), costs.end(), [&](const nn::StrategyCost& other) {
    return other.peak_activations < one.peak_activations && other.seconds.median < one.seconds.median;
  });
}

std::string plot(const std::vector<nn::StrategyCost>& costs) {
  plot::XyPlot plot{"peak of activations + recompute, MiB", "ms per step, median and least to most"};
  for (const nn::StrategyCost& c : costs)
    plot.points.push_back(
        {mib(c.peak_activations), 1e3 * c.seconds.median, c.strategy,
         fmt::format("{}: {}, {}", c.strategy, format_bytes(c.peak_activations), in_ms(c.seconds)),
         is_best(costs, c), 1e3 * c.seconds.least, 1e3 * c.seconds.most});
  return draw(plot);
}

std::string table(const std::vector<nn::StrategyCost>& costs) {
  std::string out =
      "<table>\n<tr><th>recompute</th><th>peak memory, MiB</th><th>activations, MiB</th><th>held for "
      "backward, MiB</th><th>step, ms</th><th>least to most, ms</th><th>memory saved, %</th><th>overhead, "
      "%</th></tr>\n";
  for (const nn::StrategyCost& c : costs) {
    out += is_best(costs, c) ? "<tr class=\"best\">" : "<tr>";
    for (const std::string& text :
         {plot::escaped(c.strategy), in_mib(c.peak), in_mib(c.peak_activations), in_mib(c.held),
          two_digits(1e3 * c.seconds.median),
          two_digits(1e3 * c.seconds.least) + " to " + two_digits(1e3 * c.seconds.most),
          in_cell(saved_percent(costs[0], c)), in_cell(overhead_percent(c))})
      out += "<td>" + text + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

double saved_percent(const nn::StrategyCost& plain, const nn::StrategyCost& cost) {
  return percent_below(double(plain.peak_activations), double(cost.peak_activations));
}

std::string compare_section(const std::vector<nn::StrategyCost>& costs) {
  return "<section><h2>Memory against time</h2>\n<p>Left and low is better; strong points have no other that "
         "is better in both.</p>\n" +
         plot(costs) +
         "</section>\n<section><h2>Numbers</h2>\n<p>What is saved, and the overhead, are against the first "
         "row, which has 0 of both.</p>\n" +
         table(costs) + "</section>\n";
}

}  // namespace reprise::apps::recompute
