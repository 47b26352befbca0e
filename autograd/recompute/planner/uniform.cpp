// The best of equal strategies, by trying all.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/core/bytes.h"

namespace reprise::recompute {
namespace {

// "12.05 MiB", rounded up to hundredths, and enough as it is read back as a double.
std::string mebibytes_up(int64_t bytes) {
  auto hundredths = int64_t(std::ceil(double(bytes) / (1 << 20) * 100 + 1e-6));
  std::string fraction = std::to_string(100 + hundredths % 100).substr(1);
  return std::to_string(hundredths / 100) + "." + fraction + " MiB";
}

}  // namespace

void detail::refuse_budget(int64_t budget_bytes, int64_t minimum_bytes, const std::string& of) {
  throw BudgetTooSmall(reprise::detail::join("recompute: a budget of ", format_bytes(budget_bytes),
                                             " is below the minimum ", mebibytes_up(minimum_bytes), " of ",
                                             of));
}

int64_t budget_of(const Strategy& strategy, const Chain& chain) {
  if (!strategy.memory_percent) return int64_t(strategy.memory_budget);
  const int64_t least = minimum_bytes(chain), most = simulate(plan_none(chain.size()), chain).peak_bytes;
  return least + int64_t(*strategy.memory_percent / 100 * double(std::max<int64_t>(0, most - least)));
}

Planned plan_uniform(const Chain& chain, int64_t budget_bytes) {
  check_chain(chain);
  int64_t n = chain.size();
  std::vector<Plan> plans{plan_none(n)};
  for (int64_t k = 1; k <= n; ++k) {
    plans.push_back(plan_segments(n, k));
    plans.push_back(plan_segments(n, k, LastSegment::checkpointed));
    plans.push_back(plan_every(n, k));
    plans.push_back(plan_keep(n, k));
  }
  std::optional<Planned> best;
  int64_t minimum = std::numeric_limits<int64_t>::max();
  for (Plan& plan : plans) {
    PlanCost cost = simulate(plan, chain);
    minimum = std::min(minimum, cost.peak_bytes);
    if (cost.peak_bytes <= budget_bytes && (!best || cost.seconds < best->cost.seconds))
      best = Planned{std::move(plan), cost};
  }
  if (!best) detail::refuse_budget(budget_bytes, minimum, "uniform plans of this chain");
  return *best;
}

}  // namespace reprise::recompute
