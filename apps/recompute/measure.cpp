// Measuring by the library.
#include "reprise/apps/recompute/measure.h"

#include "reprise/core/bytes.h"

namespace reprise::apps::recompute {

std::vector<Prepared> prepare_all(Trainee& trainee, const std::vector<std::string>& strategies,
                                  const Batch& batch) {
  std::vector<Prepared> all;
  for (const std::string& strategy : strategies) all.push_back(prepare(trainee, strategy, batch));
  return all;
}

std::vector<nn::StrategyCost> measure(Trainee& trainee, const std::vector<std::string>& strategies,
                                      const std::vector<Prepared>& prepared, const Batch& batch,
                                      int64_t rounds) {
  std::vector<nn::NamedStrategy> named;
  for (size_t i = 0; i < strategies.size(); ++i)
    named.push_back({strategies[i], [&trainee, &one = prepared[i]] { trainee.set_recompute(one); }});
  return nn::compare_strategies(trainee.step_case(batch), named, rounds);
}

double percent_below(double base, double value) { return base > 0 ? 100 * (base - value) / base : 0; }
double overhead_percent(const nn::StrategyCost& cost) { return 100 * (cost.times_slower - 1); }

std::string in_cell(double value) { return value == 0 ? "0" : two_digits(value); }

std::string in_ms(const nn::Spread& seconds) {
  return two_digits(1e3 * seconds.median) + " (" + two_digits(1e3 * seconds.least) + " to " +
         two_digits(1e3 * seconds.most) + ") ms";
}

}  // namespace reprise::apps::recompute
