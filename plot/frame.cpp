#include "reprise/plot/frame.h"

#include "reprise/plot/svg.h"

namespace reprise::plot {

std::string draw_axes(const Frame& frame, const std::string& x_name) {
  const std::string dark = "stroke=\"#9aa4af\"", middle = "text-anchor=\"middle\"";
  double left = frame.left, right = frame.right, bottom = frame.bottom;
  std::string out;
  for (double tick : frame.y.ticks()) {
    double y = frame.py(tick);
    out += svg_line(left, y, right, y, "stroke=\"#e7eaee\"");
    out += svg_text(left - 8, y + 4, frame.y.label(tick), "text-anchor=\"end\"");
  }
  for (double tick : frame.x.ticks()) {
    double x = frame.px(tick);
    out += svg_line(x, bottom, x, bottom + 5, dark);
    out += svg_text(x, bottom + 19, frame.x.label(tick), middle);
  }
  out += svg_line(left, bottom, right, bottom, dark);
  return x_name.empty() ? out : out + svg_text((left + right) / 2, bottom + 40, x_name, middle);
}

}  // namespace reprise::plot
