// Folders that are there only if something comes into them.
#pragma once

#include <string>
#include <vector>

namespace reprise::train {

/// Makes a folder, with those above it that are missing, durably; those that it made and that are empty when
/// it goes are removed again. Error if the folder cannot be made.
class MadeFolders {
 public:
  explicit MadeFolders(const std::string& folder);
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;

  /// Counts `folder`, inside the others, among those that it made.
  void add(const std::string& folder) { made_.insert(made_.begin(), folder); }

 private:
  std::vector<std::string> made_;  // the innermost first
};

}  // namespace reprise::train
