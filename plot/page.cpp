// HTML and SVG as text.
#include "reprise/plot/page.h"

#include <fmt/core.h>

#include <cmath>

namespace reprise::plot {
namespace {

constexpr const char* style = R"(
body { font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1f2328; background: #f6f8fa;
  margin: 0; }
main { max-width: 1060px; margin: 0 auto; padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 0 0 8px; }
p { margin: 4px 0 16px; color: #59636e; }
section { background: #fff; border: 1px solid #d8dee4; border-radius: 8px; padding: 16px 20px; margin: 16px 0;
  overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: #59636e; border-bottom: 1px solid #d8dee4; }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 600; }
svg { display: block; max-width: 100%; height: auto; } svg text { font-size: 12px; fill: #59636e; }
button { font: inherit; padding: 2px 10px; border: 1px solid #d8dee4; border-radius: 6px; background: #f6f8fa;
  cursor: pointer; }
button.on { background: #1f6feb; color: #fff; border-color: #1f6feb; }
#tip { position: fixed; display: none; background: #1f2328; color: #fff; padding: 6px 10px; border-radius: 6px;
  font-size: 13px; white-space: pre; pointer-events: none; z-index: 1; }
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "0";
}

std::string page(const std::string& title, const std::string& subtitle, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>" + escaped(title) +
         "</title>\n<style>" + style + "</style></head>\n<body><main>\n<h1>" + escaped(title) + "</h1>\n<p>" +
         escaped(subtitle) + "</p>\n" + body + "</main></body></html>\n";
}

std::string svg(double width, double height, const std::string& body, const std::string& attributes) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width, 0) + "\" height=\"" +
         number(height, 0) + "\" viewBox=\"0 0 " + number(width, 0) + " " + number(height, 0) + "\" " +
         attributes + ">\n" + body + "</svg>\n";
}

std::string svg_text(double x, double y, const std::string& text, const std::string& attributes) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + escaped(text) +
         "</text>\n";
}

std::string svg_rect(double x, double y, double width, double height, const std::string& attributes,
                     const std::string& title) {
  return "<rect x=\"" + number(x, 2) + "\" y=\"" + number(y, 2) + "\" width=\"" + number(width, 2) +
         "\" height=\"" + number(height, 2) + "\" " + attributes +
         (title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></rect>\n");
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
         number(y2) + "\" " + attributes + "/>\n";
}

}  // namespace reprise::plot
