// The best of equal strategies, by trying all.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reprise/autograd/recompute/planner/planner.h"

namespace reprise::recompute {
namespace {

// "12.05 MiB", rounded down or up to hundredths.
std::string mebibytes(int64_t bytes, double (*rounding)(double)) {
  auto hundredths = int64_t(rounding(double(bytes) / (1 << 20) * 100));
  std::string fraction = std::to_string(100 + hundredths % 100).substr(1);
  return std::to_string(hundredths / 100) + "." + fraction + " MiB";
}

double down(double x) { return std::floor(x); }
double up(double x) { return std::ceil(x + 1e-6); }  // the printed number is read back as a double

}  // namespace

void detail::refuse_budget(int64_t budget_bytes, int64_t minimum_bytes, const std::string& of) {
  fail("recompute: a budget of ", mebibytes(budget_bytes, down), " is below the minimum ",
       mebibytes(minimum_bytes, up), " of ", of);
}

Planned plan_uniform(const Chain& chain, int64_t budget_bytes) {
  check_chain(chain);
  int64_t n = chain.size();
  std::vector<Plan> plans{plan_none(n)};
  for (int64_t k = 1; k <= n; ++k) {
    plans.push_back(plan_segments(n, k));
    plans.push_back(plan_segments(n, k, LastSegment::checkpointed));
    plans.push_back(plan_every(n, k));
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
