// The dynamic program over chains of unlike stages: Pareto fronts of memory and time for every part of the
// chain.
//
// Note [Persistent schedules]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The plans are those of Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for
// heterogeneous chains: how to train deep neural networks with limited memory" (2019; the tool is called
// rotor). A stage that is played has three choices: keep all that backward needs, keep its input, or keep
// nothing. Schedules are persistent: what was kept stays until the backward that it was kept for. They are
// not always optimal among all schedules, but non-persistent ones have no known polynomial algorithm. A
// persistent schedule of stages [i, j] from x[i] is
//
//   * stage i with all kept, then a schedule of [i + 1, j]; or
//   * a region [i, s): its first run keeps nothing but x[i]; then a schedule of [s, j]; then, once backward
//   has
//     come down to s, a schedule of [i, s - 1], which is the region's `inside`.
//
// The paper fills a table over (i, j, memory) with memory in slots. Here best(i, j) is the exact front
// itself, the list of (memory, time) of which no other plan is better in both, so that no memory is lost by
// rounding, and the minimum is the chain's own. Only a front of more than `max_points` points is thinned, one
// point kept of each equal step of memory and the two ends always; that can miss a faster plan, never exceed
// the budget.
//
// Memory of a part counts what is held beyond base, x[i] and what was kept to the left of i, and is the
// simulation's (Note [What a step holds]): replays of [i, j] run beside the gradient of x[j + 1] and those of
// the parameters behind it. Stage n is what follows the chain; it is always played plainly.
#include <algorithm>
#include <limits>

#include "reprise/autograd/recompute/planner/planner.h"

namespace reprise::recompute {
namespace {

constexpr size_t max_points = 256;

/// A schedule of a part: the memory and time it needs, and its parts as indices into their fronts.
struct Point {
  int64_t bytes = 0;
  double seconds = 0;
  int32_t split = 0;  ///< the end of the region the part begins with; 0: its first stage is played plainly
  int32_t left = 0, right = 0;
};
/// Sorted by rising bytes and falling seconds.
using Front = std::vector<Point>;

// Sums of equal times in another order differ in their last bits: that is no gain.
bool is_faster(double seconds, double than) { return seconds < than - 1e-12 * than; }

// The two fronts as one.
Front merged(const Front& a, const Front& b) {
  Front front;
  front.reserve(a.size() + b.size());
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    bool from_a = j == b.size() ||
                  (i < a.size() &&
                   (a[i].bytes < b[j].bytes || (a[i].bytes == b[j].bytes && a[i].seconds <= b[j].seconds)));
    const Point& next = from_a ? a[i++] : b[j++];
    if (!front.empty() && !is_faster(next.seconds, best)) continue;
    front.push_back(next);
    best = next.seconds;
  }
  return front;
}

void thin(Front& front) {
  if (front.size() <= max_points) return;
  int64_t least = front.front().bytes;
  double step = double(front.back().bytes - least) / double(max_points - 2);
  auto cell = [&](const Point& p) { return int64_t(double(p.bytes - least) / step); };
  Front kept{front.front()};
  for (size_t i = 1; i < front.size(); ++i)
    if (i + 1 == front.size() || cell(front[i]) != cell(front[i + 1])) kept.push_back(front[i]);
  front = std::move(kept);
}

class Rotor {
 public:
  explicit Rotor(const Chain& chain) : chain_(chain), n_(chain.size()), fronts_(size_t((n_ + 1) * (n_ + 1))) {
    gradients_.assign(size_t(n_ + 2), chain.held_bytes());
    for (int64_t i = n_; i >= 0; --i)
      gradients_[size_t(i)] = gradients_[size_t(i + 1)] + stage(i).gradient_bytes;
    for (int64_t length = 0; length <= n_; ++length)
      for (int64_t i = 0; i + length <= n_; ++i) solve(i, i + length);
  }

  /// The whole chain's front, with what is around it.
  std::vector<Planned> frontier() {
    std::vector<Planned> all;
    for (const Point& p : best(0, n_)) {
      Planned planned{plan_of(0, n_, p)};
      planned.cost = simulate(planned.plan, chain_);
      bool same_peak = !all.empty() && all.back().cost.peak_bytes == planned.cost.peak_bytes;
      if (same_peak) all.pop_back();  // what is around the chain is the peak of both
      all.push_back(std::move(planned));
    }
    return all;
  }

 private:
  Front& best(int64_t i, int64_t j) { return fronts_[size_t(i * (n_ + 1) + j)]; }
  const Stage& stage(int64_t i) const { return i == n_ ? chain_.after : chain_.stages[size_t(i)]; }
  // Of the parameters' gradients, those that are there before the backward of stage i, and after it.
  int64_t gradients_before(int64_t i) const { return gradients_[size_t(i + 1)]; }
  int64_t gradients_after(int64_t i) const { return gradients_[size_t(i)]; }

  // What is there beside a forward through a part that ends with stage j: in a replay, x[j + 1]'s gradient
  // too.
  int64_t beside_forward(int64_t j) const {
    return gradients_before(j) + (j == n_ ? 0 : stage(j).boundary_bytes);
  }

  void solve(int64_t i, int64_t j) {
    Front front = plainly(i, j);
    int64_t first_run = 0;
    double seconds = 0;
    for (int64_t s = i + 1; s <= j; ++s) {  // stage s - 1 joins the region
      const Stage& last = stage(s - 1);
      first_run = std::max(first_run, (s - 1 > i ? chain_.given_bytes(i, s - 1) : 0) + last.boundary_bytes +
                                          last.workspace_unsaved_bytes);
      seconds += last.forward_seconds;
      front = merged(front, with_region(i, s, j, beside_forward(j) + first_run, seconds));
    }
    thin(front);
    best(i, j) = std::move(front);
  }

  // Stage i with all kept, then the best of the rest.
  Front plainly(int64_t i, int64_t j) {
    const Stage& s = stage(i);
    bool stops_early = i == j && j < n_;
    int64_t kept = s.saved_bytes + s.boundary_bytes;
    int64_t forward =
        beside_forward(j) + kept + s.workspace_forward_bytes - (stops_early ? s.early_stop_bytes : 0);
    int64_t backward = gradients_before(i) + kept + s.workspace_backward_bytes;
    int64_t after = gradients_after(i) + chain_.boundary_before(i);
    int64_t least = std::max({forward, backward, after});
    double seconds = s.forward_seconds + s.backward_seconds - (stops_early ? s.early_stop_seconds : 0);
    if (i == j) return {{.bytes = least, .seconds = seconds}};
    Front front;
    const Front& rest = best(i + 1, j);
    for (size_t r = 0; r < rest.size(); ++r) {
      Point p{.bytes = std::max(least, rest[r].bytes + kept),
              .seconds = rest[r].seconds + seconds,
              .right = int32_t(r)};
      if (!front.empty() && front.back().bytes == p.bytes) front.pop_back();
      front.push_back(p);
    }
    return front;
  }

  // The region [i, s), whose first run needs `least` and takes `seconds`, with all that its two parts can do.
  Front with_region(int64_t i, int64_t s, int64_t j, int64_t least, double seconds) {
    const Front &right = best(s, j), &left = best(i, s - 1);
    int64_t kept = chain_.given_bytes(i, s);
    int64_t skips = kept - chain_.boundary_before(s);  // their gradients are there in the replay
    Front front;
    for (size_t r = 0, l = 0;;) {
      Point p{.bytes = std::max({least, right[r].bytes + kept, left[l].bytes + skips}),
              .seconds = seconds + right[r].seconds + left[l].seconds,
              .split = int32_t(s),
              .left = int32_t(l),
              .right = int32_t(r)};
      if (!front.empty() && front.back().bytes == p.bytes) front.pop_back();
      front.push_back(p);
      bool more_right = r + 1 < right.size(), more_left = l + 1 < left.size();
      if (!more_right && !more_left) return front;
      // More memory first helps the part whose next point needs less.
      bool step_right = more_right && (!more_left || right[r + 1].bytes + kept <= left[l + 1].bytes + skips);
      step_right ? ++r : ++l;
    }
  }

  // The plan of a schedule of [i, j]; stage n is not part of a plan.
  Plan plan_of(int64_t i, int64_t j, const Point& point) {
    Plan plan;
    const Point* p = &point;
    for (;;) {
      if (p->split > 0) {
        Plan inside = plan_of(i, p->split - 1, best(i, p->split - 1)[size_t(p->left)]);
        if (inside.size() == 1 && !inside[0].checkpointed) inside.clear();
        plan.push_back({.begin = i, .end = p->split, .checkpointed = true, .inside = std::move(inside)});
        i = p->split;
      } else {
        if (i == n_) return plan;
        if (plan.empty() || plan.back().checkpointed) plan.push_back({.begin = i, .end = i});
        plan.back().end = ++i;
        if (i > j) return plan;
      }
      p = &best(i, j)[size_t(p->right)];
    }
  }

  const Chain& chain_;
  int64_t n_;
  std::vector<Front> fronts_;       // of stages [i, j]
  std::vector<int64_t> gradients_;  // [i]: bytes that are there once backward has come down to x[i]
};

}  // namespace

std::vector<Planned> frontier(const Chain& chain) {
  check_chain(chain);
  return Rotor(chain).frontier();
}

int64_t minimum_bytes(const Chain& chain) { return frontier(chain).front().cost.peak_bytes; }

Planned plan_rotor(const Chain& chain, int64_t budget_bytes) {
  std::vector<Planned> all = frontier(chain);
  if (all.front().cost.peak_bytes > budget_bytes)
    detail::refuse_budget(budget_bytes, all.front().cost.peak_bytes, "this chain");
  auto fits = [&](const Planned& planned) { return planned.cost.peak_bytes <= budget_bytes; };
  return *std::find_if(all.rbegin(), all.rend(), fits);
}

}  // namespace reprise::recompute
