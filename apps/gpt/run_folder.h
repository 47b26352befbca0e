// The folder of a new run.
#pragma once

#include <memory>
#include <string>

#include "reprise/apps/common/made_folders.h"
#include "reprise/io/tokenizer.h"

namespace reprise::apps::gpt {

/// The first free of runs/gpt, runs/gpt-2, ...
std::string free_run_folder();

/// Error naming --out unless `folder` is missing or empty: an earlier run is never written over.
void check_free(const std::string& folder);

/// Makes the folder with the options and the tokenizer in it. Destroyed before anything was recorded or saved
/// there, it removes again what it made.
class NewRunFolder {
 public:
  /// `tokenizer` may be null. Error naming --out if the folder cannot be made, or is not free.
  NewRunFolder(std::string folder, const std::string& config, const io::Tokenizer* tokenizer);
  ~NewRunFolder();
  NewRunFolder(const NewRunFolder&) = delete;

 private:
  void fill(const std::string& config, const io::Tokenizer* tokenizer);
  void clear() noexcept;

  std::string folder_;
  std::unique_ptr<MadeFolders> made_;
};

}  // namespace reprise::apps::gpt
