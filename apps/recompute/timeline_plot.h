// A step's memory as stacked areas over time, above what ran.
#pragma once

#include "reprise/nn/memory/step_profile.h"

namespace reprise::apps::recompute {

/// The scales that several plots share, so that they can be compared by eye.
struct TimelineScale {
  double seconds = 0, bytes = 0;
};

/// At most about `most` points, of each stretch of time the one with the most memory, and the last.
std::vector<nn::MemoryPoint> thinned(const std::vector<nn::MemoryPoint>& points, size_t most);

/// An HTML section. Moving over the picture shows what was held then, by the script below.
std::string timeline_section(const nn::StepProfile& step, const TimelineScale& scale);
std::string category_legend();
/// What makes the pictures answer to the pointer; once per page.
std::string timeline_script();

}  // namespace reprise::apps::recompute
