// What the HTML reports have in common: one file that needs nothing else and reaches for nothing.
#pragma once

#include <string>
#include <string_view>

namespace reprise::plot {

/// `text` for HTML and SVG.
std::string escaped(std::string_view text);
/// With so many decimals; "0" for what is not finite.
std::string number(double value, int decimals = 1);

/// A page with a heading, a line below it, and `body`, which is HTML.
std::string page(const std::string& title, const std::string& subtitle, const std::string& body);

/// An SVG picture of that size; `attributes` go into its tag.
std::string svg(double width, double height, const std::string& body, const std::string& attributes = "");
std::string svg_text(double x, double y, const std::string& text, const std::string& attributes = "");
std::string svg_rect(double x, double y, double width, double height, const std::string& attributes,
                     const std::string& title = "");
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes);

}  // namespace reprise::plot
