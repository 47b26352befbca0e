// Strategies as a picture: memory against time.
#pragma once

#include "reprise/apps/recompute/measure.h"

namespace reprise::apps::recompute {

/// Of the activations' peak, by how much less than `plain` a strategy needs.
double saved_percent(const nn::StrategyCost& plain, const nn::StrategyCost& cost);

/// HTML: a point for each strategy, activations to the right, time upwards, and the numbers as a table. The
/// first result is the one that the others are compared with.
std::string compare_section(const std::vector<nn::StrategyCost>& costs);

}  // namespace reprise::apps::recompute
