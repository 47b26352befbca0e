// Points with labels: all of them can be read, however the points lie.
#include "reprise/plot/xy_plot.h"

#include <random>

#include "reprise/plot/labels.h"
#include "reprise/tests/plot/no_overlaps.h"

namespace reprise::plot {
namespace {

using testing::expect_readable;

XyPlot plot_of(const std::vector<std::pair<double, double>>& places, const std::string& name) {
  XyPlot plot{"peak of activations + recompute, MiB", "ms per step"};
  for (const auto& [x, y] : places)
    plot.points.push_back(
        {x, y, name + ":" + std::to_string(plot.points.size()), "", false, 0.9 * y, 1.2 * y});
  return plot;
}

TEST(XyPlot, LabelsOfPointsInOnePlaceDoNotMeet) {
  expect_readable(draw(plot_of(std::vector(14, std::pair(10.0, 20.0)), "selective:save_attention")));
}

TEST(XyPlot, LabelsAtTheEdgesStayInside) {
  expect_readable(
      draw(plot_of({{0, 0}, {0, 5}, {100, 0}, {100, 5}, {100, 2.5}, {99.9, 5}}, "offload:recompute_cheap")));
}

TEST(XyPlot, LabelsOfAnyPointsDoNotMeet) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> spread(0, 1);
  for (int i = 0; i < 20; ++i) {
    std::vector<std::pair<double, double>> places;
    for (int k = 0; k < 16; ++k)
      places.emplace_back(1e3 * spread(random), 1e-3 * (1 + 0.01 * spread(random)));
    expect_readable(draw(plot_of(places, "selective:save_matmuls+none")));
  }
}

TEST(XyPlot, DrawsTheSpreadThroughThePoint) {
  const std::string picture = draw(XyPlot{"x", "y", {{1, 2, "one", "", true, 1, 4}, {2, 3, "two", ""}}});
  size_t lines = 0;
  for (size_t at = picture.find("#6b7682"); at != std::string::npos; at = picture.find("#6b7682", at + 1))
    ++lines;
  EXPECT_EQ(lines, 1u) << "of the point that has one";
}

TEST(PlaceLabels, StandBesideTheirPointsWhereThereIsRoom) {
  const std::vector<PlacedLabel> placed =
      place_labels({{100, 100, 6, "a"}, {300, 100, 6, "b"}}, {0, 0, 400, 200});
  for (size_t i : {0u, 1u}) {
    EXPECT_FALSE(placed[i].is_far);
    EXPECT_NEAR(placed[i].x, i == 0 ? 110 : 310, 1);
    EXPECT_STREQ(placed[i].anchor, "start");
    EXPECT_NEAR(placed[i].y, 104, 2);
  }
}

}  // namespace
}  // namespace reprise::plot
