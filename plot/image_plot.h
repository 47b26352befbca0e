// Pictures of images: a grid of them with captions, as SVG with the pixels inside, in a file of its own.
#pragma once

#include <string>
#include <vector>

namespace reprise::plot {

/// `png` is a PNG file's bytes, drawn into the rectangle with hard pixel edges where it is enlarged.
std::string svg_image(double x, double y, double width, double height, const std::string& png);

/// One place of a grid.
struct Picture {
  std::string png;                      ///< a PNG file's bytes
  std::vector<std::string> captions{};  ///< lines below it
  bool marked = false;                  ///< a red frame: a mistake
};

/// The pictures in rows of `columns`, each `size` pixels wide and high.
std::string draw_pictures(const std::vector<Picture>& pictures, size_t columns, double size);

/// RFC 4648, with padding.
std::string base64(const std::string& bytes);

}  // namespace reprise::plot
