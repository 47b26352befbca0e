// Saving while training: what fails is told and tried again, and nothing that is not finite is saved.
#pragma once

#include <functional>
#include <string>

#include "reprise/train/checkpoint.h"

namespace reprise::train {

struct SaverOptions {
  std::string run_folder;
  int keep = 2;
  double retry_seconds = 0.25;  ///< before the second try of the last save; each later wait is twice as long
};

class Saver {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `saved_step`: of the checkpoint that the run goes on from, or -1. `tell` is given what went wrong.
  Saver(SaverOptions options, int64_t saved_step, Tell tell);

  int64_t saved_step() const { return saved_step_; }  ///< -1: nothing is saved
  /// Whether a save failed that is to be tried again after this step: after 1, 2, 4, ... and at most 64.
  bool wants_another_try(int64_t step) const { return failures_ > 0 && step >= next_try_; }

  /// Saves; a failure is told, once until a save works again. Error if a tensor is not finite.
  void try_to_save(const Checkpoint& checkpoint);
  /// Saves what there is no later save of: tries again for some seconds. Error if all of it fails, or if a
  /// tensor is not finite.
  void save_last(const Checkpoint& checkpoint);

 private:
  void check_finite(const Checkpoint& checkpoint) const;
  void save(const Checkpoint& checkpoint);
  std::string newest() const;

  SaverOptions options_;
  int64_t saved_step_, next_try_ = 0, failures_ = 0;
  std::string last_complaint_;
  Tell tell_;
};

}  // namespace reprise::train
