// Strategies: their text, their plans.
#include "reprise/autograd/recompute/planner/strategy.h"

#include <algorithm>
#include <optional>

#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/core/bytes.h"
#include "reprise/core/number_in.h"

namespace reprise::recompute {
namespace {

using Kind = Strategy::Kind;

// How a kind is written: its name, and an example of what follows the colon, if anything does.
struct Form {
  Kind kind;
  std::string_view name, example{};
  bool may_lack_value = false;
};
constexpr Form forms[] = {{Kind::none, "none"},
                          {Kind::full, "full"},
                          {Kind::selective, "selective", "save_attention", true},
                          {Kind::every, "every", "3"},
                          {Kind::keep, "keep", "3"},
                          {Kind::segments, "segments", "4"},
                          {Kind::segments, "sqrt"},
                          {Kind::layers, "layers", "2,5,8"},
                          {Kind::offload, "offload", "recompute_cheap", true},
                          {Kind::plan, "plan", "[0-2] 3-4 [5]"},
                          {Kind::automatic, "auto", "2GiB"}};

struct Preset {
  std::string_view name;
  Policy (*make)();
};
constexpr Preset presets[] = {
    {"recompute_cheap", recompute_cheap}, {"save_matmuls", save_matmuls}, {"save_attention", save_attention}};

Policy policy_named(std::string_view name) {
  std::string known;
  for (const Preset& preset : presets) {
    if (preset.name == name || name.empty()) return preset.make();
    known.append(known.empty() ? "" : ", ").append(preset.name);
  }
  fail("recompute: unknown policy '", name, "'; use ", known);
}

std::string written(const Form& form) {
  std::string text(form.name);
  if (!form.example.empty()) text.append(":").append(form.example);
  return text;
}

const Form& form_named(std::string_view name, std::string_view text) {
  std::string known;
  for (const Form& form : forms) {
    if (form.name == name) return form;
    known += (known.empty() ? "" : ", ") + written(form);
  }
  fail("recompute: unknown strategy '", text, "'; use ", known);
}

int64_t parse_number(std::string_view number, std::string_view text) {
  std::optional<int64_t> value = number_in<int64_t>(number);
  check(value && *value >= 0, "recompute: '", number, "' in '", text,
        "' is not a whole number of at least 0");
  return *value;
}

// What follows "auto:".
void parse_budget(Strategy& strategy, std::string_view budget, std::string_view text) {
  if (budget.ends_with('%')) strategy.memory_percent = number_in<double>(budget.substr(0, budget.size() - 1));
  const std::optional<size_t> bytes = bytes_in(budget);
  check(bytes || strategy.memory_percent, "recompute: '", budget, "' in '", text,
        "' is neither a number of bytes such as 512MiB nor a percentage such as 50%");
  const double percent = strategy.memory_percent.value_or(0);
  check(percent >= 0 && percent <= 100, "recompute: '", budget, "' in '", text, "' is not from 0% to 100%");
  strategy.memory_budget = bytes.value_or(0);
}

// As it is read back: in a unit only where that says it exactly.
std::string budget_text(const Strategy& strategy) {
  if (strategy.memory_percent) return shortest(*strategy.memory_percent) + "%";
  constexpr std::pair<const char*, int> units[] = {{"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (auto [unit, bits] : units)
    if (strategy.memory_budget % (size_t(1) << bits) == 0)
      return std::to_string(strategy.memory_budget >> bits) + unit;
  return std::to_string(strategy.memory_budget);
}

std::vector<int64_t> parse_list(std::string_view list, std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    numbers.push_back(parse_number(list.substr(begin, end - begin), text));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

Strategy parse_strategy(std::string_view text) {
  size_t colon = text.find(':');
  const Form& form = form_named(text.substr(0, colon), text);
  bool has_value = colon != std::string_view::npos;
  check(has_value || form.example.empty() || form.may_lack_value, "recompute: '", text,
        "' needs a value, such as '", written(form), "'");
  check(!has_value || !form.example.empty(), "recompute: '", form.name, "' takes no value, got '", text, "'");
  Strategy strategy{.kind = form.kind};
  if (!has_value) return strategy;
  std::string_view value = text.substr(colon + 1);
  if (form.kind == Kind::layers) {
    strategy.layers = parse_list(value, text);
  } else if (form.kind == Kind::plan) {
    strategy.plan = parse_plan(value);
  } else if (form.kind == Kind::automatic) {
    parse_budget(strategy, value, text);
  } else if (form.kind == Kind::selective || form.kind == Kind::offload) {
    strategy.policy = value;
    check(!value.empty(), "recompute: '", text, "' names no policy");
    policy_named(value);
  } else {
    strategy.count = parse_number(value, text);
  }
  const bool counts_layers = form.kind == Kind::every || form.kind == Kind::keep;
  check(!counts_layers || strategy.count > 0, "recompute: '", text, "': ", form.name, " is at least 1");
  return strategy;
}

std::string to_string(const Strategy& strategy) {
  if (strategy.kind == Kind::segments && strategy.count == 0) return "sqrt";
  auto is_it = [&](const Form& form) { return form.kind == strategy.kind; };
  std::string text(std::find_if(std::begin(forms), std::end(forms), is_it)->name);
  if (!strategy.policy.empty()) text += ":" + strategy.policy;
  if (strategy.count > 0) text += ":" + std::to_string(strategy.count);
  for (size_t i = 0; i < strategy.layers.size(); ++i)
    text += (i == 0 ? ":" : ",") + std::to_string(strategy.layers[i]);
  if (!strategy.plan.empty()) text += ":" + to_string(strategy.plan);
  if (strategy.memory_budget > 0 || strategy.memory_percent) text += ":" + budget_text(strategy);
  return text;
}

Plan plan_of(const Strategy& strategy, int64_t n) {
  switch (strategy.kind) {
    case Kind::none:
      return plan_none(n);
    case Kind::full:
    case Kind::selective:
    case Kind::offload:
      return plan_every(n, 1);
    case Kind::every:
      return plan_every(n, strategy.count);
    case Kind::keep:
      return plan_keep(n, strategy.count);
    case Kind::segments:
      return plan_segments(n, strategy.count);
    case Kind::layers:
      return plan_selected(n, strategy.layers);
    case Kind::plan:
      check_plan(strategy.plan, n);
      return strategy.plan;
    case Kind::automatic:
      break;
  }
  fail("recompute: '", to_string(strategy),
       "' depends on what the layers cost: have them measured and give the model the plan");
}

CheckpointOptions options_of(const Strategy& strategy) {
  CheckpointOptions options;
  if (strategy.kind == Kind::offload) options.offload = std::make_shared<Offload>();
  if (strategy.kind == Kind::selective || !strategy.policy.empty())
    options.policy = policy_named(strategy.policy);
  return options;
}

}  // namespace reprise::recompute
