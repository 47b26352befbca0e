// Measuring training steps of a workload: the library's measurements, by strategies that may name a predictor's too.
#pragma once

#include <string>
#include <vector>

#include "reprise/apps/recompute/strategies.h"
#include "reprise/nn/memory/compare_strategies.h"

namespace reprise::apps::recompute {

/// What is set for each of the strategies, which are for a trainee whose optimizer has its state.
std::vector<Prepared> prepare_all(Trainee& trainee, const std::vector<std::string>& strategies,
                                  const Batch& batch);

/// Trains by each of them: nn::compare_strategies.
std::vector<nn::StrategyCost> measure(Trainee& trainee, const std::vector<std::string>& strategies,
                                      const std::vector<Prepared>& prepared, const Batch& batch,
                                      int64_t rounds);

/// By how many percent its steps take longer than those of the first strategy.
double overhead_percent(const nn::StrategyCost& cost);
/// By how many percent `value` is below `base`.
double percent_below(double base, double value);
double mib(auto bytes) { return double(bytes) / 1024 / 1024; }
/// `two_digits`, and "0" for what is nothing at all: in tables of pages.
std::string in_cell(double value);
/// "12.3 (11.9 to 14.0) ms", the median, the least and the most.
std::string in_ms(const nn::Spread& seconds);

}  // namespace reprise::apps::recompute
