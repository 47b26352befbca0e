#include "reprise/apps/recompute/timeline_plot.h"

#include <fmt/core.h>

#include "reprise/apps/recompute/measure.h"
#include "reprise/core/bytes.h"
#include "reprise/plot/frame.h"
#include "reprise/plot/labels.h"
#include "reprise/plot/svg.h"

namespace reprise::apps::recompute {
namespace {

constexpr double width = 1020, left = 70, right = 990, top = 10, bottom = 290;
constexpr double lane_top = 326, lane_height = 26, height = 362;
constexpr size_t drawn_points = 900;

struct Layer {
  MemoryCategory category;
  const char* colour;
};
// From the bottom: what stays from step to step, then what comes and goes.
constexpr Layer stack[] = {{MemoryCategory::parameters, "#8c959f"},  {MemoryCategory::optimizer, "#c4cbd2"},
                           {MemoryCategory::data, "#e3c94b"},        {MemoryCategory::gradients, "#e08a3c"},
                           {MemoryCategory::activations, "#3b78c9"}, {MemoryCategory::recompute, "#2f9e6b"},
                           {MemoryCategory::workspace, "#a05fb0"}};

const char* colour_of(nn::StepPhase phase) {
  constexpr const char* colours[] = {"#9ec5f5", "#f3c59b", "#2f9e6b", "#d0d7de"};
  return colours[size_t(phase)];
}

// The area between what lies below a category and that with the category on top, in steps.
std::string area(const plot::Frame& frame, const std::vector<nn::MemoryPoint>& points,
                 std::vector<size_t>& below, const Layer& layer) {
  std::string upper, lower;
  for (size_t i = 0; i < points.size(); ++i) {
    double x = frame.px(1e3 * points[i].seconds);
    double next = i + 1 < points.size() ? frame.px(1e3 * points[i + 1].seconds) : x;
    size_t above = below[i] + points[i].by_category[size_t(layer.category)];
    std::string y = plot::number(frame.py(mib(above)));
    upper += fmt::format("L{:.1f} {}H{:.1f}", x, y, next);
    lower = fmt::format("L{:.1f} {:.1f}H{:.1f}", next, frame.py(mib(below[i])), x) + lower;
    below[i] = above;
  }
  upper[0] = 'M';
  return plot::svg_path(upper + lower + "Z", "fill=\"" + std::string(layer.colour) + "\"");
}

std::string lane(const plot::Frame& frame, const std::vector<nn::StepSlice>& slices) {
  std::string out;
  for (const nn::StepSlice& slice : nn::by_layer(slices)) {
    double x = frame.px(1e3 * slice.begin), w = frame.px(1e3 * slice.end) - x;
    bool replay = slice.phase == nn::StepPhase::replay;
    std::string label = fmt::format("{} {}: {} ms", name_of(slice.phase), slice.layer,
                                    two_digits(1e3 * (slice.end - slice.begin)));
    out += plot::svg_rect(
        x, lane_top + (replay ? 13 : 0), w, replay ? 13 : lane_height,
        std::string("stroke=\"#fff\" stroke-width=\"0.5\" fill=\"") + colour_of(slice.phase) + "\"", label);
    const bool has_room = w > 6 + plot::text_width(slice.name) && !replay;
    if (has_room) out += plot::svg_text(x + 3, lane_top + 11, slice.name);
  }
  return out;
}

std::string data_of(const std::vector<nn::MemoryPoint>& points) {
  std::string out = "<script type=\"application/json\">{\"left\":" + plot::number(left) +
                    ",\"right\":" + plot::number(right) + ",\"points\":[";
  for (size_t i = 0; i < points.size(); ++i) {
    out += (i ? ",[" : "[") + plot::number(1e3 * points[i].seconds, 3);
    for (const Layer& layer : stack)
      out += "," + std::to_string(points[i].by_category[size_t(layer.category)]);
    out += "]";
  }
  return out + "]}</script>\n";
}

}  // namespace

std::vector<nn::MemoryPoint> thinned(const std::vector<nn::MemoryPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  double stretch = points.back().seconds / double(most);
  std::vector<nn::MemoryPoint> kept{points.front()};
  double end = stretch;
  for (size_t i = 1; i + 1 < points.size(); ++i) {
    if (points[i].seconds >= end || kept.size() == 1) {
      kept.push_back(points[i]);
      while (end <= points[i].seconds) end += stretch;
    } else if (points[i].total() > kept.back().total()) {
      kept.back() = points[i];
    }
  }
  kept.push_back(points.back());
  return kept;
}

std::string timeline_section(const nn::StepProfile& step, const TimelineScale& scale) {
  plot::Frame frame{plot::PlotAxis(0, 1e3 * scale.seconds, 10),
                    plot::PlotAxis(0, mib(scale.bytes), 6),
                    left,
                    right,
                    top,
                    bottom};
  std::vector<nn::MemoryPoint> points = thinned(step.timeline.points(), drawn_points);
  std::vector<size_t> below(points.size());
  std::string body = draw_axes(frame);
  for (const Layer& layer : stack) body += area(frame, points, below, layer);
  body += lane(frame, step.slices);
  body += "<line class=\"cursor\" y1=\"" + plot::number(top) + "\" y2=\"" +
          plot::number(lane_top + lane_height) + "\" stroke=\"#1f2328\" visibility=\"hidden\"/>\n";
  std::string heading = fmt::format("recompute {}: peak {}, activations + recompute {}, {} ms", step.strategy,
                                    format_bytes(step.peak), format_bytes(step.timeline.peak_activations()),
                                    two_digits(1e3 * step.seconds));
  return "<section class=\"timeline\" data-ms=\"" + plot::number(frame.x.high(), 6) + "\"><h2>" +
         plot::escaped(heading) + "</h2>\n" + plot::svg(width, height, body) + data_of(points) +
         "</section>\n";
}

std::string category_legend() {
  std::string out;
  double x = 0, y = 4;
  auto add = [&](const char* colour, const std::string& name) {
    const double item = 17 + plot::text_width(name);
    if (x + item > width) x = 0, y += 20;
    out += plot::svg_rect(x, y, 12, 12, std::string("fill=\"") + colour + "\"") +
           plot::svg_text(x + 17, y + 10, name);
    x += item + 16;
  };
  for (const Layer& layer : stack) add(layer.colour, std::string(name_of(layer.category)));
  x = 0, y += 20;
  for (nn::StepPhase phase :
       {nn::StepPhase::forward, nn::StepPhase::backward, nn::StepPhase::replay, nn::StepPhase::update})
    add(colour_of(phase), name_of(phase));
  return plot::svg(width, y + 16, out);
}

std::string timeline_script() {
  std::string names;
  for (const Layer& layer : stack) names += "'" + std::string(name_of(layer.category)) + "',";
  return "<div id=\"tip\"></div>\n<script>\nconst names = [" + names + R"(];
const tip = document.getElementById('tip');
for (const section of document.querySelectorAll('.timeline')) {
  const picture = section.querySelector('svg'), cursor = section.querySelector('.cursor');
  const data = JSON.parse(section.querySelector('script').textContent), points = data.points;
  picture.addEventListener('mousemove', event => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) * picture.viewBox.baseVal.width / box.width;
    const ms = (x - data.left) / (data.right - data.left) * section.dataset.ms;
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= ms) low = middle; else high = middle - 1;
    }
    const values = points[low].slice(1), total = values.reduce((a, b) => a + b, 0);
    const shown = value => value >= 1 || value === 0 ? value.toFixed(1) : value.toPrecision(2);
    const mib = bytes => shown(bytes / 1048576).padStart(9) + ' MiB  ';
    tip.textContent = ms.toFixed(2) + ' ms\n' + mib(total) + 'in all\n' +
        names.map((name, i) => mib(values[i]) + name).reverse().join('\n');
    tip.style.display = 'block';
    tip.style.left = Math.min(event.clientX + 14, innerWidth - 210) + 'px';
    tip.style.top = event.clientY + 14 + 'px';
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
    cursor.setAttribute('visibility', ms >= 0 ? 'visible' : 'hidden');
  });
  picture.addEventListener('mouseleave', () => {
    tip.style.display = 'none';
    cursor.setAttribute('visibility', 'hidden');
  });
}
</script>
)";
}

}  // namespace reprise::apps::recompute
