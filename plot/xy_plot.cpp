// Drawing points over axes.
#include "reprise/plot/xy_plot.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/plot/frame.h"
#include "reprise/plot/labels.h"
#include "reprise/plot/svg.h"

namespace reprise::plot {
namespace {

constexpr double xy_radius = 6, xy_width = 1020, xy_height = 420;
constexpr double xy_left = 70, xy_right = 990, xy_top = 16, xy_bottom = 370;

Frame frame_of(const XyPlot& plot) {
  std::vector<std::pair<double, double>> all = plot.line;
  for (const XyPoint& point : plot.points)
    for (double y : {point.y, point.least_y, point.most_y}) all.emplace_back(point.x, y);
  double x_high = 0, low = all.empty() ? 0 : all[0].second, high = low;
  for (auto [x, y] : all) {
    x_high = std::max(x_high, x);
    low = std::min(low, y), high = std::max(high, y);
  }
  double margin = 0.1 * (high - low) + 0.01 * high;
  return {PlotAxis(0, 1.1 * x_high, 8),
          PlotAxis(std::max(0.0, low - margin), high + margin, 6),
          xy_left,
          xy_right,
          xy_top,
          xy_bottom};
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
      draw_axes(frame, plot.x_name) + svg_text(xy_left + 6, xy_top + 12, plot.y_name) + steps(frame, plot);
  std::vector<Box> spreads;
  std::vector<LabelledPoint> points;
  for (const XyPoint& point : plot.points) {
    const double x = frame.px(point.x);
    points.push_back({x, frame.py(point.y), xy_radius, point.label});
    spreads.push_back({x - 1, frame.py(point.most_y), x + 1, frame.py(point.least_y)});
  }
  const std::vector<PlacedLabel> labels =
      place_labels(points, {xy_left, xy_top, xy_width, xy_bottom},
                   {text_box(xy_left + 6, xy_top + 12, plot.y_name)}, spreads);
  for (size_t i = 0; i < points.size(); ++i) {
    const double x = points[i].x, y = points[i].y;
    if (labels[i].is_far) out += svg_line(x, y, labels[i].to_x, labels[i].to_y, "stroke=\"#d0d7de\"");
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const XyPoint& point = plot.points[i];
    const double x = points[i].x;
    if (point.most_y > point.least_y)
      out += svg_line(x, frame.py(point.least_y), x, frame.py(point.most_y), "stroke=\"#6b7682\"");
    out += svg_circle(x, points[i].y, xy_radius, point.strong ? "fill=\"#1f6feb\"" : "fill=\"#9ec5f5\"",
                      point.title);
    out += svg_text(labels[i].x, labels[i].y, point.label,
                    std::string("text-anchor=\"") + labels[i].anchor + "\"");
  }
  return svg(xy_width, xy_height, out);
}

}  // namespace reprise::plot
