// Loss curves as a picture: one SVG file that needs nothing else, for a browser, a README or a paper.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::plot {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (step, value), by step; NaN and infinities are left out
};

/// The curves over their steps with axes, grid and legend. A long curve is drawn twice: pale as it is, strong
/// and smoothed.
std::string draw_curves(std::span<const Curve> curves, const std::string& title);

/// Draws `loss` (training) and `val_loss` (validation) of the log at `log_path` into an SVG file at `path`,
/// replaced atomically. Lines of the log that cannot be read are left out.
void write_loss_plot(const std::string& path, const std::string& log_path, const std::string& title = "Loss");

}  // namespace reprise::plot
