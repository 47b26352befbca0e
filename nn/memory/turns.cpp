#include "reprise/nn/memory/turns.h"

#include <algorithm>

#include "reprise/core/error.h"

namespace reprise::nn {

Spread spread_of(std::vector<double> values) {
  check(!values.empty(), "spread_of: of no values");
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

std::vector<Turns> time_in_turns(size_t count, int64_t rounds,
                                 const std::function<double(size_t which)>& seconds) {
  if (rounds <= 0) return {};
  std::vector<std::vector<double>> times(count), ratios(count);
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      const size_t turn = (i + size_t(round)) % count;
      times[turn].push_back(seconds(turn));
    }
    for (size_t i = 0; i < count; ++i) ratios[i].push_back(times[i].back() / times[0].back());
  }
  std::vector<Turns> all;
  for (size_t i = 0; i < count; ++i) all.push_back({spread_of(times[i]), spread_of(ratios[i]).median});
  return all;
}

}  // namespace reprise::nn
