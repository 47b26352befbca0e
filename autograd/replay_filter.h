// ReplayFilter: what must not happen twice where a part of the forward pass is played again: its first run
// has changed state already. Whoever plays again has one meanwhile; operations and the engine ask.
#pragma once

#include "reprise/autograd/meta.h"

namespace reprise::autograd {

/// In force on its thread while it lives, beside those around it.
class ReplayFilter {
 public:
  ReplayFilter();
  virtual ~ReplayFilter();
  ReplayFilter(const ReplayFilter&) = delete;
  ReplayFilter& operator=(const ReplayFilter&) = delete;

  /// Whether this thread plays something again: running statistics, say, stay as they are.
  static bool active();
  /// Whether a first run used `leaf`. A backward pass that it ran has added to the leaf's gradient then, and
  /// the same pass in the replay must not.
  static bool any_used(const AutogradMeta& leaf);
  /// Before `method` changes x in place: Error if a first run has changed it.
  static void check_write(const char* method, const Tensor& x);

 protected:
  virtual bool first_run_used(const AutogradMeta& leaf) const = 0;
  virtual void check_own_write(const char* method, const Tensor& x) const = 0;

 private:
  const ReplayFilter* outer_;
};

}  // namespace reprise::autograd
