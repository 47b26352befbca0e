// A step for chrome://tracing and ui.perfetto.dev: https://github.com/google/perfetto, "Trace Event Format".
#pragma once

#include "reprise/nn/memory/step_profile.h"

namespace reprise::apps::recompute {

/// Each step is a process: slices of operations under those of their layers, memory by category as a counter.
std::string chrome_trace(const std::vector<nn::StepProfile>& steps);

}  // namespace reprise::apps::recompute
