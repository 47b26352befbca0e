// Drawing points over axes.
#include "reprise/plot/xy_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/plot/frame.h"
#include "reprise/plot/svg.h"

namespace reprise::plot {
namespace {

constexpr double width = 1020, height = 420, left = 70, right = 990, top = 16, bottom = 370;

Frame frame_of(const XyPlot& plot) {
  std::vector<std::pair<double, double>> all = plot.line;
  for (const XyPoint& point : plot.points) all.emplace_back(point.x, point.y);
  double x_high = 0, low = all.empty() ? 0 : all[0].second, high = low;
  for (auto [x, y] : all) {
    x_high = std::max(x_high, x);
    low = std::min(low, y), high = std::max(high, y);
  }
  double margin = 0.1 * (high - low) + 0.01 * high;
  return {PlotAxis(0, 1.1 * x_high, 8),
          PlotAxis(std::max(0.0, low - margin), high + margin, 6),
          left,
          right,
          top,
          bottom};
}

std::string steps(const Frame& frame, const XyPlot& plot) {
  std::string path;
  for (auto [x, y] : plot.line)
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", frame.px(x), frame.py(y))
                         : fmt::format("H{:.1f}V{:.1f}", frame.px(x), frame.py(y));
  return path.empty() ? "" : svg_path(path, "fill=\"none\" stroke=\"#3b78c9\" stroke-width=\"2\"");
}

}  // namespace

std::string draw(const XyPlot& plot) {
  Frame frame = frame_of(plot);
  std::string out =
      draw_axes(frame, plot.x_name) + svg_text(left + 6, top + 12, plot.y_name) + steps(frame, plot);
  for (const XyPoint& point : plot.points) {
    double x = frame.px(point.x), y = frame.py(point.y);
    out += svg_circle(x, y, 6, point.strong ? "fill=\"#1f6feb\"" : "fill=\"#9ec5f5\"", point.title);
    out += svg_text(x + 10, y + 4, point.label);
  }
  return svg(width, height, out);
}

}  // namespace reprise::plot
