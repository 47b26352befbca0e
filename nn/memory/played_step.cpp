#include "reprise/nn/memory/played_step.h"

#include <chrono>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/planner/dry_run.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/stream.h"

namespace reprise::nn {
namespace {

using Kind = RecomputeStrategy::Kind;

}  // namespace

PlayedStep::PlayedStep(const char* op, const TrainingStepCase& step, Blocks blocks)
    : op_(op),
      step_(step),
      blocks_(blocks == Blocks::others ? nullptr
              : step.blocks            ? step.blocks
                                       : dynamic_cast<RecomputeSetting*>(&step.model)) {
  check(step.loss != nullptr, op, ": the step has no loss");
  check(step.smallest >= 1 && step.rows >= 1 && step.rows % step.smallest == 0, op, ": rows ", step.rows,
        " must be a multiple of the smallest batch, ", step.smallest);
  if (const TensorList all = step.model.parameters(); !all.empty()) device_ = all[0].device();
  if (step.optimizer) step.optimizer->allocate_state();
  if (!blocks_) return;
  own_ = blocks_->strategy();
  check(own_.kind != Kind::none || blocks_->recompute_plan() == recompute::plan_none(blocks_->size()), op,
        ": the model runs by a plan of its own; set the strategy `none` before, and the plan again after");
}

PlayedStep::~PlayedStep() {
  step_.model.zero_grad();
  set(own_);
}

void PlayedStep::check_budget() const {
  check(step_.budget > 0 || !NoCompute::is_on(), op_, ": within a NoCompute the budget is to be given");
}

bool PlayedStep::has(const RecomputeStrategy& strategy) const {
  if (strategy.kind == Kind::none) return true;
  if (strategy.kind == Kind::automatic) return blocks_ != nullptr;
  try {
    if (blocks_) recompute::plan_of(strategy, blocks_->size());
    if (step_.set_recompute) step_.set_recompute(strategy);
  } catch (const Error&) { return false; }
  return blocks_ != nullptr;
}

void PlayedStep::set(const RecomputeStrategy& strategy) const {
  if (!blocks_) return;
  if (step_.set_recompute)
    step_.set_recompute(strategy);
  else
    blocks_->set_recompute(strategy);
}

StepMemory PlayedStep::measure(const RecomputeStrategy& strategy, int64_t sums) const {
  return measure_step(step_.model,
                      {.device = device_,
                       .loss = step_.loss,
                       .set_recompute = [this](const RecomputeStrategy& chosen) { set(chosen); },
                       .smallest = step_.smallest,
                       .sums = sums,
                       .optimizer = step_.optimizer},
                      strategy);
}

recompute::Plan PlayedStep::planned(const RecomputeStrategy& strategy) const {
  set(strategy);
  play_parts();
  return blocks_->recompute_plan();
}

void PlayedStep::set(const recompute::Plan& plan) const { blocks_->set_recompute(plan); }

double PlayedStep::play() const {
  const recompute::DryRun dry_run;
  synchronize(device_);
  const auto begin = std::chrono::steady_clock::now();
  step_.loss(step_.rows).backward();
  synchronize(device_);
  const auto end = std::chrono::steady_clock::now();
  step_.model.zero_grad();
  return std::chrono::duration<double>(end - begin).count();
}

void PlayedStep::play_parts(const PlayHooks& hooks) const {
  std::optional<recompute::DryRun> dry_run;
  if (!step_.update) dry_run.emplace();
  const MemoryScope activations(MemoryCategory::activations);  // which a dry run counts as a replay's
  if (hooks.begin) hooks.begin();
  {
    const Tensor loss = step_.loss(step_.rows);
    if (hooks.before_backward) hooks.before_backward(loss);
    loss.backward();
  }
  if (hooks.before_update) hooks.before_update();
  if (step_.update)
    step_.update();
  else
    step_.model.zero_grad();
  synchronize(device_);
  if (hooks.end) hooks.end();
}

double PlayedStep::time_parts() const {
  synchronize(device_);
  const auto begin = std::chrono::steady_clock::now();
  play_parts();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void PlayedStep::play_forward(const std::function<void()>& begin, const std::function<void()>& end) const {
  const recompute::DryRun dry_run;
  begin();
  step_.loss(step_.rows);
  end();
}

}  // namespace reprise::nn
