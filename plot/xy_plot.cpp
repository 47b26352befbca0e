// Drawing points over axes.
#include "reprise/plot/xy_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/plot/axis.h"
#include "reprise/plot/page.h"

namespace reprise::plot {
namespace {

constexpr double width = 1020, height = 420, left = 70, right = 990, top = 16, bottom = 370;

struct Frame {
  PlotAxis x, y;
  double px(double value) const { return left + x.fraction(value) * (right - left); }
  double py(double value) const { return bottom - y.fraction(value) * (bottom - top); }
};

Frame frame_of(const XyPlot& plot) {
  std::vector<std::pair<double, double>> all = plot.line;
  for (const XyPoint& point : plot.points) all.emplace_back(point.x, point.y);
  double x_high = 0, low = all.empty() ? 0 : all[0].second, high = low;
  for (auto [x, y] : all) {
    x_high = std::max(x_high, x);
    low = std::min(low, y), high = std::max(high, y);
  }
  double margin = 0.1 * (high - low) + 0.01 * high;
  return {PlotAxis(0, 1.1 * x_high, 8), PlotAxis(std::max(0.0, low - margin), high + margin, 6)};
}

std::string axes(const Frame& frame, const XyPlot& plot) {
  std::string out;
  for (double tick : frame.y.ticks())
    out += svg_line(left, frame.py(tick), right, frame.py(tick), "stroke=\"#e7eaee\"") +
           svg_text(left - 8, frame.py(tick) + 4, frame.y.label(tick), "text-anchor=\"end\"");
  for (double tick : frame.x.ticks())
    out += svg_line(frame.px(tick), bottom, frame.px(tick), bottom + 5, "stroke=\"#9aa4af\"") +
           svg_text(frame.px(tick), bottom + 19, frame.x.label(tick), "text-anchor=\"middle\"");
  out += svg_line(left, bottom, right, bottom, "stroke=\"#9aa4af\"");
  out += svg_text((left + right) / 2, bottom + 40, plot.x_name, "text-anchor=\"middle\"");
  return out + svg_text(left + 6, top + 12, plot.y_name);
}

std::string steps(const Frame& frame, const XyPlot& plot) {
  std::string path;
  for (auto [x, y] : plot.line)
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", frame.px(x), frame.py(y))
                         : fmt::format("H{:.1f}V{:.1f}", frame.px(x), frame.py(y));
  if (path.empty()) return "";
  return "<path fill=\"none\" stroke=\"#3b78c9\" stroke-width=\"2\" d=\"" + path + "\"/>\n";
}

}  // namespace

std::string draw(const XyPlot& plot) {
  Frame frame = frame_of(plot);
  std::string out = axes(frame, plot) + steps(frame, plot);
  for (const XyPoint& point : plot.points) {
    double x = frame.px(point.x), y = frame.py(point.y);
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"{}\"><title>{}</title></circle>\n",
                       x, y, point.strong ? "#1f6feb" : "#9ec5f5", escaped(point.title));
    out += svg_text(x + 10, y + 4, point.label);
  }
  return svg(width, height, out);
}

}  // namespace reprise::plot
