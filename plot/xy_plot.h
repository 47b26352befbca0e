// Points and lines over two axes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reprise::plot {

struct XyPoint {
  double x, y;
  std::string label;  ///< beside it, where it covers no other one
  std::string title;  ///< under the pointer
  bool strong = false;
  double least_y = y, most_y = y;  ///< the spread of y: a thin line through the point
};

struct XyPlot {
  std::string x_name, y_name;
  std::vector<XyPoint> points{};
  std::vector<std::pair<double, double>> line{};  ///< by rising x; drawn as steps
};

/// As an SVG picture. The x axis begins at 0.
std::string draw(const XyPlot& plot);

}  // namespace reprise::plot
