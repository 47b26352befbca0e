// Making plans, checking them and running layers by them.
#include "reprise/autograd/recompute/planner/plan.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/number_in.h"

namespace reprise::recompute {
namespace {

void check_layers(int64_t n) { check(n >= 0, "recompute: a chain of ", n, " layers"); }

std::string range_of(const Segment& s) { return reprise::detail::join("[", s.begin, ", ", s.end, ")"); }

// That the segments are [begin, end) in order, here and inside.
void check_covers(const Plan& plan, int64_t begin, int64_t end, const std::string& what) {
  int64_t next = begin;
  for (const Segment& s : plan) {
    check(s.begin == next, "recompute: the plan's segment ", range_of(s), " of ", what, " should begin at ",
          next, ": segments cover all layers in order");
    check(s.end > s.begin, "recompute: the plan's segment ", range_of(s), " of ", what, " is empty");
    check(s.end <= end, "recompute: the plan's segment ", range_of(s), " goes beyond ", what);
    check(s.checkpointed || s.inside.empty(), "recompute: the plan's segment ", range_of(s), " of ", what,
          " has segments inside and is not checkpointed");
    if (!s.inside.empty()) check_covers(s.inside, s.begin, s.end, "segment " + range_of(s));
    next = s.end;
  }
  check(next == end, "recompute: the plan ends at layer ", next, " of ", what);
}

// fn(x), for layers that take all of it.
Tensor with_what_is_taken(std::span<const LayerFunction>, const Tensor& x, const auto& fn) { return fn(x); }

// The list with fn(end of the list) in place of that end, which is what the layers take.
TensorList with_what_is_taken(std::span<const ListLayer> layers, TensorList x, const auto& fn) {
  int64_t depth = 0, lowest = 0;  // of the list, against what it is now
  for (const ListLayer& layer : layers) {
    lowest = std::min(lowest, depth - layer.takes);
    depth += layer.gives - layer.takes;
  }
  check(int64_t(x.size()) >= -lowest, "recompute: layers take ", -lowest, " tensors from a list of ",
        x.size());
  TensorList taken(x.end() + lowest, x.end());
  x.resize(x.size() - taken.size());
  TensorList given = fn(taken);
  check(int64_t(given.size()) == depth - lowest, "recompute: layers gave ", given.size(),
        " tensors, and say ", depth - lowest);
  x.insert(x.end(), given.begin(), given.end());
  return x;
}

Tensor run_all(std::span<const LayerFunction> layers, const Tensor& x) { return run_layers(layers, x); }

TensorList run_all(std::span<const ListLayer> layers, TensorList x) {
  for (size_t i = 0; i < layers.size(); ++i)
    x = with_what_is_taken(layers.subspan(i, 1), std::move(x), layers[i].run);
  return x;
}

// Plays a checked plan; layers[0] is the chain's layer `first`.
template <class Layer, class State>
State play(const Plan& plan, std::span<const Layer> layers, int64_t first, const State& x,
           const CheckpointOptions& options) {
  State y = x;
  for (const Segment& s : plan) {
    auto part = layers.subspan(size_t(s.begin - first), size_t(s.end - s.begin));
    if (!s.checkpointed) {
      y = run_all(part, std::move(y));
      continue;
    }
    auto region = [own = std::vector(part.begin(), part.end()), s, options](const State& in) {
      std::span<const Layer> layers_inside(own);
      return s.inside.empty() ? run_all(layers_inside, in)
                              : play(s.inside, layers_inside, s.begin, in, options);
    };
    y = with_what_is_taken(part, std::move(y),
                           [&](const State& in) { return checkpoint(region, in, options); });
  }
  return y;
}

// Reads what `print` writes.
class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : text_(text) {}

  Plan whole() {
    Plan plan = segments();
    expect(at_ == text_.size());
    return plan;
  }

 private:
  Plan segments() {
    Plan plan;
    expect(++depth_ <= deepest);
    do plan.push_back(segment());
    while (takes(" "));
    --depth_;
    return plan;
  }
  Segment segment() {
    const bool checkpointed = takes("[");
    Segment s{.begin = number(), .checkpointed = checkpointed};
    s.end = (takes("-") ? number() : s.begin) + 1;
    if (checkpointed && takes(": ")) s.inside = segments();
    expect(!checkpointed || takes("]"));
    return s;
  }
  int64_t number() {
    const size_t digits = std::min(text_.find_first_not_of("0123456789", at_), text_.size()) - at_;
    const auto value = number_in<int64_t>(text_.substr(at_, digits));
    expect(value && *value < most_layers);
    at_ += digits;
    return *value;
  }
  bool takes(std::string_view word) {
    const bool is_there = text_.substr(at_).starts_with(word);
    if (is_there) at_ += word.size();
    return is_there;
  }
  void expect(bool fits) const {
    check(fits, "recompute: '", text_, "' is no plan such as '[0-2] 3 [4-6: [4-5] 6]', from '",
          text_.substr(at_), "' on");
  }

  static constexpr int64_t most_layers = int64_t(1) << 32;
  static constexpr int deepest = 1000;  // each level is a call
  std::string_view text_;
  size_t at_ = 0;  // what is before was read
  int depth_ = 0;
};

void print(const Plan& plan, std::string& text) {
  for (const Segment& s : plan) {
    if (&s != plan.data()) text += ' ';
    if (s.checkpointed) text += '[';
    text += std::to_string(s.begin);
    if (s.end > s.begin + 1) text += "-" + std::to_string(s.end - 1);
    if (!s.inside.empty()) text += ": ", print(s.inside, text);
    if (s.checkpointed) text += ']';
  }
}

}  // namespace

Plan plan_none(int64_t n) {
  check_layers(n);
  return n == 0 ? Plan() : Plan{{.begin = 0, .end = n}};
}

Plan plan_segments(int64_t n, int64_t segments, LastSegment last) {
  check_layers(n);
  check(segments >= 0, "recompute: ", segments,
        " segments; they are at least 1, or 0 for ceil(sqrt(layers))");
  if (segments == 0)
    while (segments * segments < n) ++segments;
  check(segments <= n, "recompute: ", segments, " segments of only ", n, " layers");
  Plan plan;
  for (int64_t i = 0; i < segments; ++i)
    plan.push_back({.begin = i * n / segments,
                    .end = (i + 1) * n / segments,
                    .checkpointed = i + 1 < segments || last == LastSegment::checkpointed});
  return plan;
}

Plan plan_every(int64_t n, int64_t every) {
  check(every >= 1, "recompute: every ", every, "-th layer; it is at least 1");
  std::vector<int64_t> layers;
  for (int64_t i = every - 1; i < n; i += every) layers.push_back(i);
  return plan_selected(n, layers);
}

Plan plan_keep(int64_t n, int64_t keep) {
  check(keep >= 1, "recompute: keep ", keep, "-th layer; it is at least 1");
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < n; ++i)
    if ((i + 1) % keep != 0) layers.push_back(i);
  return plan_selected(n, layers);
}

Plan plan_selected(int64_t n, const std::vector<int64_t>& layers) {
  check_layers(n);
  std::vector<bool> selected(size_t(n), false);
  for (int64_t layer : layers) {
    check(layer >= 0 && layer < n, "recompute: layer ", layer, " was selected, there are ", n);
    selected[size_t(layer)] = true;
  }
  Plan plan;
  for (int64_t i = 0; i < n; ++i) {
    bool checkpointed = selected[size_t(i)];
    if (!checkpointed && !plan.empty() && !plan.back().checkpointed)
      plan.back().end = i + 1;
    else
      plan.push_back({.begin = i, .end = i + 1, .checkpointed = checkpointed});
  }
  return plan;
}

std::string to_string(const Plan& plan) {
  std::string text;
  print(plan, text);
  return text;
}

Plan parse_plan(std::string_view text) { return PlanReader(text).whole(); }

void check_plan(const Plan& plan, int64_t n) {
  check_covers(plan, 0, n, reprise::detail::join("a chain of ", n, " layers"));
}

Tensor run_layers(std::span<const LayerFunction> layers, const Tensor& x) {
  Tensor y = x;
  for (const LayerFunction& layer : layers) y = layer(y);
  return y;
}

Tensor run_plan(const Plan& plan, const std::vector<LayerFunction>& layers, const Tensor& x,
                const CheckpointOptions& options) {
  check_plan(plan, int64_t(layers.size()));
  if (autograd::grad_mode_enabled()) return play(plan, std::span(layers), 0, x, options);
  return run_layers(layers, x);
}

TensorList run_plan(const Plan& plan, const std::vector<ListLayer>& layers, const TensorList& x,
                    const CheckpointOptions& options) {
  check_plan(plan, int64_t(layers.size()));
  return play(autograd::grad_mode_enabled() ? plan : plan_none(int64_t(layers.size())), std::span(layers), 0,
              x, options);
}

Tensor checkpoint_sequential(const std::vector<LayerFunction>& layers, int64_t segments, const Tensor& x,
                             const CheckpointOptions& options, LastSegment last) {
  return run_plan(plan_segments(int64_t(layers.size()), segments, last), layers, x, options);
}

}  // namespace reprise::recompute
