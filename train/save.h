// One save, by a process alone or by ranks that write their parts: where they share the optimizer's state, none has room for
// all of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/distributed/process_group.h"
#include "reprise/train/checkpoint.h"

namespace reprise::train {

/// A save that one rank could not do its part of.
class SaveError : public Error {
 public:
  /// `what` went wrong on a rank.
  SaveError(int rank, const std::string& what)
      : Error("rank " + std::to_string(rank) + ": " + what), rank_(rank) {}
  int rank() const { return rank_; }  ///< that rank

 private:
  int rank_;
};

/// A checkpoint on its way: one process's, or one of which each rank of a group writes its own `optimizer`.
class Save {
 public:
  /// All ranks of `group` make the same calls; without one this process saves alone. What fails, `prepare` too, is an Error, of
  /// ranks a SaveError on all of them, and the checkpoint before stays the newest.
  Save(
      std::string run_folder, int64_t step, int keep, distributed::ProcessGroup* group,
      const std::function<void()>& prepare = [] {});

  /// Writes what this rank has; alone, it is then in place. On any thread, once. Returns what `finish` is given.
  std::string write(const Checkpoint& checkpoint);
  /// Once all ranks have written theirs, it is in place. Returns what save_checkpoint returns.
  std::string finish(const std::string& written);

 private:
  bool leads() const { return group_->rank() == 0; }

  const std::string run_folder_;
  int keep_;
  distributed::ProcessGroup* group_;         // null: alone
  std::optional<NewCheckpoint> unfinished_;  // of ranks, on rank 0
  std::string folder_;                       // of that
};

/// Where rank 0 has its run folder, if all ranks see it there and can write into it; else the numbers of those that cannot.
struct SharedFolder {
  std::string path{};        ///< empty where rank 0 cannot write there
  std::vector<int> blind{};  ///< ranks that cannot
};
/// `folder` is rank 0's. All ranks call it.
SharedFolder look_for_shared_folder(distributed::ProcessGroup& group, const std::string& folder);

}  // namespace reprise::train
