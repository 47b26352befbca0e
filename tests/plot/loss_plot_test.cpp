// Loss plots: the points land where they should, and no input breaks the file.
#include "reprise/plot/loss_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reprise/io/file.h"
#include "reprise/tests/io/memory_counter.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/locale.h"

namespace reprise::plot {
namespace {

using io::read_file;
using testing::TempFolder;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++found;
  return found;
}

TEST(LossPlot, PutsPointsOnTheScale) {
  Curve curve{"a", {{0, 0}, {5, 10}, {10, 5}}};
  std::string svg = draw_curves(std::span(&curve, 1), "t");
  // The plot spans 68 to 812 across and 422 (low) to 64 (high).
  EXPECT_NE(svg.find("points=\"68.0,422.0 440.0,64.0 812.0,243.0 \""), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "<circle"), 3u);
  EXPECT_NE(svg.find(">a  5.0000</text>"), std::string::npos);
}

TEST(LossPlot, SmoothsAndThinsLongCurvesAndKeepsSpikes) {
  Curve curve{"a", {}};
  for (int step = 0; step < 100000; ++step) curve.points.emplace_back(step, step == 54321 ? 10.0 : 1.0);
  std::string svg = draw_curves(std::span(&curve, 1), "t");
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_LT(svg.size(), 60000u);
  EXPECT_NE(svg.find(",64.0 "), std::string::npos) << "the spike is gone";
}

TEST(LossPlot, SurvivesEmptyAndInfiniteCurves) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Curve curves[] = {
      {"empty", {}}, {"bad", {{1, nan}, {2, INFINITY}, {3, -INFINITY}}}, {"flat", {{1, 2}, {2, 2}}}};
  for (std::span<const Curve> some : {std::span<const Curve>(), std::span<const Curve>(curves)}) {
    std::string svg = draw_curves(some, "t");
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  }
}

TEST(LossPlot, EscapesNames) {
  Curve curve{"a<b>&\x01", {{0, 1}}};
  std::string svg = draw_curves(std::span(&curve, 1), "<script>");
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;"), std::string::npos);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
}

TEST(LossPlot, DrawsTrainingAndValidation) {
  TempFolder folder;
  std::string log = folder.write("metrics.jsonl",
                                 "{\"step\":1,\"loss\":3,\"lr\":99}\nnot a record\n{\"step\":2,\"loss\":2}\n"
                                 "{\"step\":2,\"val_loss\":2.5}\n");
  write_loss_plot(folder / "loss.svg", log, "Shakespeare");
  std::string svg = read_file(folder / "loss.svg");
  EXPECT_NE(svg.find(">train  2.0000<"), std::string::npos);
  EXPECT_NE(svg.find(">validation  2.5000<"), std::string::npos);
  EXPECT_NE(svg.find(">Shakespeare<"), std::string::npos);
  EXPECT_EQ(svg.find("99"), std::string::npos);
}

TEST(LossPlot, IsTheSameInEveryLocale) {
  TempFolder folder;
  std::string log =
      folder.write("metrics.jsonl", "{\"step\":1000,\"loss\":1.2345}\n{\"step\":3000000,\"loss\":0.0005}\n");
  auto draw = [&] {
    write_loss_plot(folder / "loss.svg", log);
    return read_file(folder / "loss.svg");
  };
  auto [plain, grouped] = reprise::testing::under_both_locales(draw);
  EXPECT_EQ(plain, grouped);
}

TEST(LossPlot, TakesAtMostTwiceTheLogInMemory) {
  TempFolder folder;
  for (std::string line : {"{\"step\":1}\n", "{\"step\":1,\"loss\":1}\n", "[[[["}) {
    std::string text;
    while (text.size() < size_t(5) << 19) text += line;
    std::string log = folder.write("metrics.jsonl", text);
    testing::MemoryCounter counter;
    write_loss_plot(folder / "loss.svg", log);
    EXPECT_LE(counter.peak(), int64_t(2 * text.size()) + (1 << 20)) << line;
  }
}

}  // namespace
}  // namespace reprise::plot
