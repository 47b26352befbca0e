// Drawing strategies.
#include "reprise/apps/recompute/compare_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/apps/recompute/page.h"
#include "reprise/io/plot_axis.h"

namespace reprise::apps::recompute {
namespace {

constexpr double width = 1020, height = 420, left = 70, right = 1000, top = 16, bottom = 370;

double mib(size_t bytes) { return double(bytes) / 1024 / 1024; }

// Nothing cheaper needs less memory.
bool is_best(const std::vector<StrategyResult>& results, const StrategyResult& one) {
  return std::none_of(results.begin(), results.end(), [&](const StrategyResult& other) {
    return other.memory.peak_activations < one.memory.peak_activations && other.seconds < one.seconds;
  });
}

std::string plot(const std::vector<StrategyResult>& results) {
  double memory = 0, low = results[0].seconds, high = low;
  for (const StrategyResult& r : results) {
    memory = std::max(memory, mib(r.memory.peak_activations));
    low = std::min(low, r.seconds), high = std::max(high, r.seconds);
  }
  double margin = 0.1 * (high - low) + 0.01 * high;
  io::PlotAxis x(0, 1.1 * memory, 8), y(1e3 * (low - margin), 1e3 * (high + margin), 6);
  auto px = [&](double value) { return left + x.fraction(value) * (right - left); };
  auto py = [&](double value) { return bottom - y.fraction(value) * (bottom - top); };
  std::string out;
  for (double tick : y.ticks())
    out += svg_line(left, py(tick), right, py(tick), "stroke=\"#e7eaee\"") +
           svg_text(left - 8, py(tick) + 4, y.label(tick), "text-anchor=\"end\"");
  for (double tick : x.ticks())
    out += svg_line(px(tick), bottom, px(tick), bottom + 5, "stroke=\"#9aa4af\"") +
           svg_text(px(tick), bottom + 19, x.label(tick), "text-anchor=\"middle\"");
  out += svg_line(left, bottom, right, bottom, "stroke=\"#9aa4af\"");
  out += svg_text((left + right) / 2, bottom + 40, "peak of activations + recompute, MiB",
                  "text-anchor=\"middle\"");
  out += svg_text(left + 6, top + 6, "ms a step");
  for (const StrategyResult& r : results) {
    double cx = px(mib(r.memory.peak_activations)), cy = py(1e3 * r.seconds);
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"{}\"><title>{}: {}, {:.1f} ms</title></circle>\n",
        cx, cy, is_best(results, r) ? "#1f6feb" : "#9ec5f5", escaped(r.strategy),
        in_mib(r.memory.peak_activations), 1e3 * r.seconds);
    out += svg_text(cx + 10, cy + 4, r.strategy);
  }
  return svg(width, height, out);
}

std::string table(const std::vector<StrategyResult>& results) {
  std::string out =
      "<table>\n<tr><th>recompute</th><th>peak memory, MiB</th><th>activations, MiB</th><th>held for "
      "backward, "
      "MiB</th><th>step, ms</th><th>memory saved, %</th><th>overhead, %</th></tr>\n";
  for (const StrategyResult& r : results) {
    out += is_best(results, r) ? "<tr class=\"best\">" : "<tr>";
    for (const std::string& text :
         {escaped(r.strategy), number(mib(r.memory.peak)), number(mib(r.memory.peak_activations)),
          number(mib(r.memory.held)), number(1e3 * r.seconds), number(saved_percent(results[0], r)),
          number(overhead_percent(results[0], r))})
      out += "<td>" + text + "</td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

double saved_percent(const StrategyResult& plain, const StrategyResult& result) {
  return percent_below(double(plain.memory.peak_activations), double(result.memory.peak_activations));
}

double overhead_percent(const StrategyResult& plain, const StrategyResult& result) {
  return -percent_below(plain.seconds, result.seconds);
}

std::string compare_section(const std::vector<StrategyResult>& results) {
  return "<section><h2>Memory against time</h2>\n<p>Left and low is better; strong points have no other that "
         "is better in both.</p>\n" +
         plot(results) + "</section>\n<section><h2>Numbers</h2>\n" + table(results) + "</section>\n";
}

}  // namespace reprise::apps::recompute
