// Strategies and plans of models.
#include "reprise/nn/recompute_setting.h"

namespace reprise::nn {
namespace {
using Kind = RecomputeStrategy::Kind;
}  // namespace

// What the strategy's kind does not read would be ignored.
void RecomputeSetting::check_heeded(const RecomputeStrategy& s) const {
  auto heeds = [&](bool does, const auto&... option) {
    check(does, owner_, ": recompute '", to_string(s), "' does not heed ", option...);
  };
  heeds(s.count == 0 || s.kind == Kind::every || s.kind == Kind::segments, "count ", s.count);
  heeds(s.layers.empty() || s.kind == Kind::layers, "layers, of which it has ", s.layers.size());
  heeds(s.policy.empty() || s.kind == Kind::selective || s.kind == Kind::offload, "policy '", s.policy, "'");
  heeds(s.memory_budget == 0 || s.kind == Kind::automatic, "memory_budget ", s.memory_budget);
}

recompute::Plan RecomputeSetting::recompute_plan() const {
  return plan_.empty() ? recompute::plan_none(size()) : plan_;
}

void RecomputeSetting::set_recompute(const RecomputeStrategy& strategy) {
  RecomputeStrategy chosen = strategy;  // it may be this setting's, which the call below forgets
  const bool is_automatic = chosen.kind == Kind::automatic;
  check(!is_automatic || auto_ == Auto::planned_later, owner_,
        ": recompute 'auto' plans chains of blocks, and these are none; name a strategy such as 'full'");
  check(!is_automatic || chosen.memory_budget > 0, owner_, ": recompute 'auto' needs a memory budget");
  check_heeded(chosen);
  set_recompute(is_automatic ? recompute::plan_none(size()) : recompute::plan_of(chosen, size()),
                recompute::options_of(chosen));
  strategy_ = chosen;
}

void RecomputeSetting::set_recompute(recompute::Plan plan, const CheckpointOptions& options) {
  recompute::check_plan(plan, size());
  plan_ = plan == recompute::plan_none(size()) ? recompute::Plan() : std::move(plan);
  checkpoint_options_ = options;
  strategy_ = {};
  planned_numel_ = 0;
}

void RecomputeSetting::set_planned(const recompute::Plan& plan, size_t budget_bytes, int64_t input_numel) {
  set_recompute(plan);
  strategy_ = {.kind = Kind::automatic, .memory_budget = budget_bytes};
  planned_numel_ = input_numel;
}

}  // namespace reprise::nn
