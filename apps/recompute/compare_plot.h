// Strategies as a picture: memory against time.
#pragma once

#include "reprise/apps/recompute/measure.h"

namespace reprise::apps::recompute {

/// Of the activations' peak, by how much less than `plain` a strategy needs.
double saved_percent(const StrategyResult& plain, const StrategyResult& result);

/// HTML: a point for each strategy, activations to the right, time upwards, and the numbers as a table. The
/// first result is the one that the others are compared with.
std::string compare_section(const std::vector<StrategyResult>& results);

}  // namespace reprise::apps::recompute
