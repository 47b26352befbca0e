// Axes: round ticks that cover the range, whatever the range is.
#include "reprise/plot/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reprise::plot {
namespace {

std::vector<std::string> labels(const PlotAxis& axis) {
  std::vector<std::string> texts;
  for (double tick : axis.ticks()) texts.push_back(axis.label(tick));
  return texts;
}

TEST(PlotAxis, TicksAreRound) {
  EXPECT_EQ(labels(PlotAxis(1.43, 4.27, 6)),
            (std::vector<std::string>{"1.0", "1.5", "2.0", "2.5", "3.0", "3.5", "4.0", "4.5"}));
  EXPECT_EQ(labels(PlotAxis(0, 20000, 4)),
            (std::vector<std::string>{"0", "5,000", "10,000", "15,000", "20,000"}));
  EXPECT_EQ(labels(PlotAxis(-1234567, 0, 2)), (std::vector<std::string>{"-2,000,000", "-1,000,000", "0"}));
  EXPECT_EQ(labels(PlotAxis(0.011, 0.029, 2)), (std::vector<std::string>{"0.01", "0.02", "0.03"}));
}

TEST(PlotAxis, AnyRangeCanBeDrawn) {
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<double, double> ranges[] = {{0, 0},          {5, 5},           {infinity, -infinity},
                                              {nan, 1},        {0, infinity},    {1, 1 + 1e-15},
                                              {-1e299, 1e299}, {1e-310, 2e-310}, {0, 1e-300}};
  for (auto [low, high] : ranges) {
    PlotAxis axis(low, high, 6);
    EXPECT_LT(axis.low(), axis.high()) << low << " to " << high;
    EXPECT_TRUE(std::isfinite(axis.fraction(axis.high()))) << low << " to " << high;
    EXPECT_LE(axis.ticks().size(), 20u) << low << " to " << high;
    EXPECT_GE(axis.ticks().size(), 2u) << low << " to " << high;
  }
}

}  // namespace
}  // namespace reprise::plot
