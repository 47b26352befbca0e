// Saving while training: what fails is told and tried again, and nothing that is not finite is saved.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "reprise/train/checkpoint.h"
#include "reprise/train/save.h"

namespace reprise::train {

struct SaverOptions {
  std::string run_folder;
  int keep = 2;
  double retry_seconds = 0.25;  ///< before the second try of the last save; each later wait is twice as long
  /// A copy in host memory is written by a thread of its own while training goes on, one at a time.
  bool is_async = false;
  /// The ranks that save together, which make the same calls. Null: this process saves alone.
  distributed::ProcessGroup* group = nullptr;
};

class Saver {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `saved_step`: of the checkpoint that the run goes on from, or -1. `tell` is given what went wrong.
  Saver(SaverOptions options, int64_t saved_step, Tell tell);

  /// The step of the newest checkpoint, once what is being written is there or has failed; -1: nothing is saved.
  int64_t saved_step();
  /// Whether a save is known to have failed that is to be tried again after this step: after 1, 2, 4, ... and at most 64.
  bool wants_another_try(int64_t step) const;
  /// Whether the thread of a save is at work. Once it is on no rank, `settle` waits for nothing.
  bool is_writing() const;
  /// Waits for what is being written, and puts it in place.
  void settle();

  /// Saves, or begins to; a failure is told, once until a save works again: where a thread writes, by the calls after it.
  /// Waits for the save before it. Error if a tensor is not finite.
  void try_to_save(const Checkpoint& checkpoint);
  /// Saves what there is no later save of: tries again for some seconds. Error if all of it fails, or if a
  /// tensor is not finite.
  void save_last(const Checkpoint& checkpoint);

 private:
  // What a thread writes: what its save is finished with.
  struct Writing {
    int64_t step;
    std::unique_ptr<Save> save;
    std::future<std::string> written;
  };
  void check_finite(const Checkpoint& checkpoint) const;
  std::string save(const Checkpoint& checkpoint) const;
  void write_behind(const Checkpoint& checkpoint);
  bool ends_rank(const Error& error) const;
  void hear_of_other_rank(const Error& error) const;
  void note_saved(int64_t step, const std::string& complaint);
  void note_failure(int64_t step, const Error& error);
  std::string newest() const;

  SaverOptions options_;
  int64_t saved_step_, next_try_ = 0, failures_ = 0;
  std::string last_complaint_;
  Tell tell_;
  std::optional<Writing> writing_;  // last: its thread uses the options
};

}  // namespace reprise::train
