#include "reprise/plot/loss_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reprise/io/atomic_file.h"
#include "reprise/io/run_log.h"
#include "reprise/plot/frame.h"
#include "reprise/plot/svg.h"

namespace reprise::plot {
namespace {

using Points = std::vector<std::pair<double, double>>;

// The canvas and the plot's edges on it, in SVG units.
constexpr double loss_width = 840, loss_height = 480;
constexpr double loss_left = 68, loss_right = loss_width - 28, loss_top = 64, loss_bottom = loss_height - 58;
// Blue and orange stay apart for colour-blind readers (Okabe and Ito 2008 order their palette so).
constexpr std::array<const char*, 4> colours = {"#2563a8", "#d9591c", "#2a8a57", "#7b4ea3"};
constexpr size_t most_points = 1500;  // more cannot be told apart on the canvas
constexpr size_t smoothed_from = 40;  // shorter curves are drawn as they are
constexpr size_t marked_up_to = 40;   // and have a dot at each point

bool is_finite(const Points::value_type& point) {
  return std::abs(point.first) < 1e300 && std::abs(point.second) < 1e300;
}

Points finite(const Points& points) {
  Points kept;
  kept.reserve(points.size());
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept), is_finite);
  return kept;
}

// Replaces the points by the mean under a window that falls off exponentially to both sides, so that the
// curve is not drawn late.
void smooth(Points& points) {
  double decay = 1 - 1 / std::max(4.0, double(points.size()) / 100), sum = 0;
  std::vector<double> sums(points.size());  // of the points up to each
  for (size_t i = 0; i < points.size(); ++i) { sums[i] = sum = decay * sum + points[i].second; }
  double after = 0, weight_after = 0;  // of the points after each
  for (size_t i = points.size(); i-- > 0;) {
    double value = points[i].second, weight = (1 - std::pow(decay, double(i + 1))) / (1 - decay);
    points[i].second = (sums[i] + after) / (weight + weight_after);
    after = decay * (after + value);
    weight_after = decay * (weight_after + 1);
  }
}

// At most about `most_points`: of each run of neighbours the lowest and the highest, so that spikes stay.
Points thinned(const Points& points) {
  if (points.size() <= most_points) return points;
  size_t run = 2 * ((points.size() + most_points - 1) / most_points);
  auto by_height = [](const auto& a, const auto& b) { return a.second < b.second; };
  Points out;
  for (size_t start = 0; start < points.size(); start += run) {
    auto begin = points.begin() + int64_t(start),
         end = points.begin() + int64_t(std::min(points.size(), start + run));
    auto [low, high] = std::minmax_element(begin, end, by_height);
    out.push_back(*std::min(low, high));
    if (low != high) out.push_back(*std::max(low, high));
  }
  out.push_back(points.back());
  return out;
}

Frame frame_of(std::span<const Curve> curves) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double x_low = infinity, x_high = -infinity, y_low = infinity, y_high = -infinity;
  for (const Curve& curve : curves) {
    for (const auto& point : curve.points) {
      if (!is_finite(point)) continue;
      auto [x, y] = point;
      x_low = std::min(x_low, x), x_high = std::max(x_high, x);
      y_low = std::min(y_low, y), y_high = std::max(y_high, y);
    }
  }
  return {
      PlotAxis(x_low, x_high, 8), PlotAxis(y_low, y_high, 6), loss_left, loss_right, loss_top, loss_bottom};
}

// Where the curve's points stand in the picture.
Points placed(const Frame& frame, Points points) {
  for (auto& [x, y] : points) x = frame.px(x), y = frame.py(y);
  return points;
}

std::string draw_curve(const Frame& frame, const Curve& curve, const std::string& colour) {
  Points points = finite(curve.points);
  std::string stroke = "stroke-linejoin=\"round\" stroke-linecap=\"round\" stroke=\"" + colour + "\" ", out;
  if (points.size() >= smoothed_from) {
    out +=
        svg_polyline(placed(frame, thinned(points)), stroke + "stroke-width=\"1\" stroke-opacity=\"0.28\"");
    smooth(points);
  }
  out += svg_polyline(placed(frame, thinned(points)), stroke + "stroke-width=\"2.2\"");
  if (points.size() > marked_up_to) return out;
  for (auto [x, y] : placed(frame, points))
    out += svg_circle(x, y, 3.2, "stroke=\"#ffffff\" stroke-width=\"1.2\" fill=\"" + colour + "\"");
  return out;
}

// Names with their last values, from the right: a sample of the line, then the text.
std::string draw_legend(std::span<const Curve> curves) {
  std::string out = "<g font-size=\"13\" fill=\"#24292f\">\n";
  double x = loss_right;
  for (size_t i = curves.size(); i-- > 0;) {
    Points points = finite(curves[i].points);
    std::string text = curves[i].name + (points.empty() ? "" : "  " + number(points.back().second, 4));
    out += svg_text(x, 35, text, "text-anchor=\"end\"");
    x -= 6.8 * double(text.size()) + 8;
    out += svg_line(x - 22, 31, x, 31,
                    std::string("stroke-width=\"3\" stroke-linecap=\"round\" stroke=\"") +
                        colours[i % colours.size()] + "\"");
    x -= 46;
  }
  return out + "</g>\n";
}

}  // namespace

std::string draw_curves(std::span<const Curve> curves, const std::string& title) {
  Frame frame = frame_of(curves);
  std::string body = "<title>" + escaped(title) + "</title>\n";
  body += svg_rect(0, 0, loss_width, loss_height, "rx=\"8\" fill=\"#ffffff\"");
  body += svg_text(loss_left, 36, title, "font-size=\"18\" font-weight=\"600\" fill=\"#1f2328\"");
  body += "<g font-size=\"12\" fill=\"#59636e\" stroke-width=\"1\">\n";
  for (double tick : frame.x.ticks())
    body += svg_line(frame.px(tick), loss_top, frame.px(tick), loss_bottom, "stroke=\"#f1f3f5\"");
  body += draw_axes(frame, "step") + "</g>\n";
  for (size_t i = 0; i < curves.size(); ++i)
    body += draw_curve(frame, curves[i], colours[i % colours.size()]);
  return svg(loss_width, loss_height, body + draw_legend(curves), picture_font);
}

void write_loss_plot(const std::string& path, const std::string& log_path, const std::string& title) {
  std::vector<Curve> curves{{"train", {}}, {"validation", {}}};
  auto for_each_value = [&](auto&& value_of_curve) {
    for (const io::RunRecord& record : io::read_run_log(log_path)) {
      for (const auto& [name, value] : record.metrics) {
        if (name == "loss") value_of_curve(0, double(record.step), value);
        if (name == "val_loss") value_of_curve(1, double(record.step), value);
      }
    }
  };
  std::array<size_t, 2> counts{};  // first, so that a long log's points are not moved as they grow
  for_each_value([&](size_t curve, double, double) { ++counts[curve]; });
  for (size_t curve : {0, 1}) curves[curve].points.reserve(counts[curve]);
  for_each_value(
      [&](size_t curve, double step, double value) { curves[curve].points.emplace_back(step, value); });
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  io::write_file(path, draw_curves(curves, title));
}

}  // namespace reprise::plot
