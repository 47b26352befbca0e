// The folder that a run is kept in.
#pragma once

#include <optional>
#include <string>

#include "reprise/train/made_folders.h"
#include "reprise/train/run_lock.h"

namespace reprise::train {

/// What lies in a folder that training is to write into.
enum class FolderState {
  free,     ///< nothing, or no folder
  foreign,  ///< something that is no run
  begun,    ///< a run that was stopped before its first checkpoint
  saved,    ///< a run with a checkpoint
};
FolderState state_of(const std::string& folder);

/// For a new run in `--out folder`: Error that says what to do unless it is free.
void check_free(const std::string& folder);

/// The folder of a new run, locked. Of several processes that want one folder, one gets it.
class NewRunFolder {
 public:
  /// Makes `folder`, durably; if it is empty, the first free of runs/NAME, runs/NAME-2, ... Error naming
  /// --out if it cannot be made, is not free, or another process trains there.
  NewRunFolder(const std::string& folder, const std::string& name, const RunLock::Tell& tell);
  /// If nothing was recorded or saved there, removes it again, with what training puts there first.
  ~NewRunFolder();
  NewRunFolder(const NewRunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  void clear();

  std::string path_;
  std::optional<MadeFolders> made_;
  std::optional<RunLock> lock_;
};

}  // namespace reprise::train
