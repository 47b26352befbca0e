// Loss curves as a picture: one SVG file that needs nothing else, for a browser, a README or a paper.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/io/run_log.h"

namespace reprise::io {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (step, value), by step; NaN and infinities are left out
};

/// The curves over their steps with axes, grid and legend. A long curve is drawn twice: pale as it is, strong
/// and smoothed.
std::string draw_curves(std::span<const Curve> curves, const std::string& title);

/// Draws `loss` (training) and `val_loss` (validation) of `records` into an SVG file at `path`, replaced
/// atomically.
void write_loss_plot(const std::string& path, const std::vector<RunRecord>& records,
                     const std::string& title = "Loss");

}  // namespace reprise::io
