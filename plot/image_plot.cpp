#include "reprise/plot/image_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "reprise/plot/svg.h"

namespace reprise::plot {

std::string base64(const std::string& bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;  // 24 bits; missing bytes are 0
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? uint8_t(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string svg_image(double x, double y, double width, double height, const std::string& png) {
  return fmt::format(
      "<image x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" preserveAspectRatio=\"xMidYMid\" "
      "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
      x, y, width, height, base64(png));
}

std::string draw_pictures(const std::vector<Picture>& pictures, size_t columns, double size) {
  constexpr double gap = 14, line_height = 16;
  size_t lines = 0;
  for (const Picture& picture : pictures) lines = std::max(lines, picture.captions.size());
  const double row_height = size + line_height * double(lines) + gap;
  std::string body;
  for (size_t i = 0; i < pictures.size(); ++i) {
    double x = gap + double(i % columns) * (size + gap), y = gap + double(i / columns) * row_height;
    body += svg_image(x, y, size, size, pictures[i].png);
    if (pictures[i].marked)
      body +=
          svg_rect(x - 1, y - 1, size + 2, size + 2, "fill=\"none\" stroke=\"#cf4a4a\" stroke-width=\"2\"");
    for (size_t line = 0; line < pictures[i].captions.size(); ++line)
      body += svg_text(x + size / 2, y + size + line_height * double(line + 1) - 3,
                       pictures[i].captions[line], "text-anchor=\"middle\"");
  }
  size_t rows = (pictures.size() + columns - 1) / columns;
  return svg(gap + double(columns) * (size + gap), gap + double(rows) * row_height, body, picture_font);
}

}  // namespace reprise::plot
