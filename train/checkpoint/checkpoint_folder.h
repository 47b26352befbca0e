// The folder that a run's checkpoints lie in: their names, LATEST, and what may be deleted. Only what this
// program made, and nothing was added to, is ever deleted: a copy, a link, a folder with a note in it stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::train {

/// "checkpoints" in a run folder, which need not be there.
class CheckpointFolder {
 public:
  /// Reads and makes nothing.
  explicit CheckpointFolder(const std::string& run_folder) : path_(run_folder + "/checkpoints") {}

  const std::string& path() const { return path_; }  ///< RUN/checkpoints
  /// Of the checkpoint of a name in it.
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  /// The step in "step-00000012" or "step-00000012-again"; nothing of any other name.
  static std::optional<int64_t> step_of(std::string_view name);

  /// The names of all such folders, oldest first.
  std::vector<std::string> names() const;
  /// The name in LATEST; without a LATEST (a first save that was killed in its last moment), the newest that
  /// is there; empty if there is none. Error if LATEST names nothing that is there.
  std::string newest() const;

  /// A name for a checkpoint of `step` that is free, and is not LATEST's: that one stays where it is until
  /// LATEST names its successor. A checkpoint of the step that an earlier run left is removed.
  std::string make_name(int64_t step) const;
  /// Makes a new folder to write a checkpoint into that will be `name`.
  std::string begin(const std::string& name) const;
  /// Puts it in place, durably, and makes it the newest.
  void finish(const std::string& unfinished, const std::string& name) const;

  /// Removes all but the newest `keep`, counted from `latest`. Returns what could not be removed, and why;
  /// empty if nothing.
  std::string clean(const std::string& latest, int keep) const;
  /// Removes what saves left that failed or were killed; the same.
  std::string remove_unfinished() const;

 private:
  std::string latest() const;
  void discard(const std::string& name) const;
  bool may_be_deleted(const std::string& name) const;
  void remove(const std::string& name) const;

  std::string path_;
};

}  // namespace reprise::train
