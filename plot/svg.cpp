#include "reprise/plot/svg.h"

#include <fmt/core.h>

#include <cmath>

namespace reprise::plot {
namespace {

std::string element(const char* name, const std::string& attributes, const std::string& title = "") {
  if (title.empty()) return fmt::format("<{} {}/>\n", name, attributes);
  return fmt::format("<{0} {1}><title>{2}</title></{0}>\n", name, attributes, escaped(title));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      out += c;
  }
  return out;
}

std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "0";
}

std::string svg(double width, double height, const std::string& body, const std::string& attributes) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" {2}>\n{3}</svg>\n",
      width, height, attributes, body);
}

std::string svg_text(double x, double y, const std::string& text, const std::string& attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

std::string svg_rect(double x, double y, double width, double height, const std::string& attributes,
                     const std::string& title) {
  // Two decimals: a slice of time may be narrower than one.
  return element("rect",
                 fmt::format("x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}", x, y, width,
                             height, attributes),
                 title);
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return element("line", fmt::format("x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}", x1, y1, x2,
                                     y2, attributes));
}

std::string svg_circle(double x, double y, double radius, const std::string& attributes,
                       const std::string& title) {
  return element("circle",
                 fmt::format("cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}", x, y, radius, attributes), title);
}

std::string svg_polyline(std::span<const std::pair<double, double>> points, const std::string& attributes) {
  std::string text;
  for (auto [x, y] : points) text += fmt::format("{:.1f},{:.1f} ", x, y);
  return element("polyline", "fill=\"none\" " + attributes + " points=\"" + text + "\"");
}

std::string svg_path(const std::string& data, const std::string& attributes) {
  return element("path", attributes + " d=\"" + data + "\"");
}

}  // namespace reprise::plot
