// ReplayScope: the state of the thread in which a region is played again.
#pragma once

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/recompute/replay/recording.h"
#include "reprise/autograd/replay_filter.h"

namespace reprise::recompute {

/// Recording is on, generators and the thread's state are what the first run found, memory counts as
/// recompute, and nothing of the regions around is active. Everything returns to what it was when the scope
/// ends.
class ReplayScope {
 public:
  explicit ReplayScope(const Recording& first);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;

 private:
  class Filter final : public autograd::ReplayFilter {
   public:
    explicit Filter(const Captures& captures) : captures_(captures) {}

   private:
    bool first_run_used(const autograd::AutogradMeta& leaf) const override {
      return captures_.has_leaf(leaf);
    }
    void check_own_write(const char* method, const Tensor& x) const override;

    const Captures& captures_;
  };

  EnableGrad grad_;
  MemoryScope memory_{MemoryCategory::recompute};
  autograd::HideOpObservers no_observers_;
  autograd::DrawRecorder no_recorders_{nullptr};
  std::optional<autograd::RestoreGenerators> generators_;
  amp::RestoreAutocast autocast_;
  MatmulPrecisionScope matmul_precision_;
  autograd::SubstitutionsAside aside_;
  autograd::Substitution substitution_;
  std::vector<std::shared_ptr<void>> thread_;
  std::shared_ptr<void> context_;
  std::optional<Filter> filter_;
};

}  // namespace reprise::recompute
