// An axis of a plot: a range that ends on round numbers, and where the ticks stand.
#pragma once

#include <string>
#include <vector>

namespace reprise::plot {

class PlotAxis {
 public:
  /// Covers [low, high] by about `ticks` ticks that are 1, 2 or 5 times a power of ten apart. An empty or
  /// infinite range is widened to one that can be drawn.
  PlotAxis(double low, double high, int ticks);

  double low() const { return low_; }
  double high() const { return high_; }
  double fraction(double value) const { return (value - low_) / (high_ - low_); }  ///< 0 at low, 1 at high
  std::vector<double> ticks() const;
  std::string label(double tick) const;  ///< "0.5", "12,000": as many decimals as the ticks need

 private:
  double low_, high_, spacing_;
};

}  // namespace reprise::plot
