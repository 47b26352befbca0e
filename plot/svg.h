// SVG as text: the elements that pictures are made of. Coordinates have one decimal, in every locale.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::plot {

/// `text` for HTML and SVG, in an element or an attribute; control characters, which XML forbids, are left
/// out.
std::string escaped(std::string_view text);
/// With so many decimals; "0" for what is not finite.
std::string number(double value, int decimals = 1);

/// For the attributes of a picture that stands alone: the font and colour of its texts.
inline constexpr const char* picture_font =
    "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#59636e\"";

/// A picture of that size. Here and below `attributes` go into the element's tag, and `title` shows under the
/// pointer.
std::string svg(double width, double height, const std::string& body, const std::string& attributes = "");
std::string svg_text(double x, double y, const std::string& text, const std::string& attributes = "");
std::string svg_rect(double x, double y, double width, double height, const std::string& attributes,
                     const std::string& title = "");
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& attributes);
std::string svg_circle(double x, double y, double radius, const std::string& attributes,
                       const std::string& title = "");
std::string svg_polyline(std::span<const std::pair<double, double>> points, const std::string& attributes);
/// `data` are the commands of SVG's path: "M0 0H1".
std::string svg_path(const std::string& data, const std::string& attributes);

}  // namespace reprise::plot
