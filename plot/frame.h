// Two axes around a rectangle of a picture.
#pragma once

#include <string>

#include "reprise/plot/axis.h"

namespace reprise::plot {

struct Frame {
  PlotAxis x, y;
  double left, right, top, bottom;  ///< the rectangle's edges, in the picture's coordinates

  double px(double value) const { return left + x.fraction(value) * (right - left); }
  double py(double value) const { return bottom - y.fraction(value) * (bottom - top); }
};

/// The grid of y, the ticks of x, the labels of both, and the name of x below.
std::string draw_axes(const Frame& frame, const std::string& x_name = "");

}  // namespace reprise::plot
