// Making the folder of a run, and undoing that.
#include "reprise/apps/gpt/run_folder.h"

#include <filesystem>

#include "reprise/apps/common/checkpoint.h"
#include "reprise/apps/common/option_error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"

namespace reprise::apps::gpt {
namespace fs = std::filesystem;

std::string free_run_folder() {
  std::string folder = "runs/gpt";
  std::error_code ignored;
  for (int i = 2; fs::exists(fs::symlink_status(folder, ignored)); ++i)
    folder = "runs/gpt-" + std::to_string(i);
  return folder;
}

void check_free(const std::string& folder) {
  std::error_code error;
  fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return;
  check(!error, "--out ", folder, ": ", error.message());
  check(fs::is_directory(status), "--out ", folder, ": is there already, and no folder");
  bool empty = fs::is_empty(folder, error);
  check(!error, "--out ", folder, ": ", error.message());
  check(empty, "--out ", folder,
        " holds something already: choose another folder, or --resume to go on with the run in it");
}

NewRunFolder::NewRunFolder(std::string folder, const std::string& config, const io::Tokenizer* tokenizer)
    : folder_(std::move(folder)), made_(under_option("--out " + folder_, [&] {
        check_free(folder_);
        return std::make_unique<MadeFolders>(folder_);
      })) {
  under_option("--out " + folder_, [&] {
    try {
      fill(config, tokenizer);
    } catch (const Error&) {
      clear();
      throw;
    }
  });
}

NewRunFolder::~NewRunFolder() {
  std::error_code error;
  bool recorded = fs::file_size(folder_ + "/metrics.jsonl", error) > 0 && !error;
  bool saved = fs::exists(folder_ + "/checkpoints", error) || error;
  if (!recorded && !saved) clear();
}

void NewRunFolder::fill(const std::string& config, const io::Tokenizer* tokenizer) {
  io::write_file(folder_ + "/config.toml", config);
  if (!tokenizer) return;
  io::make_folders_durable(folder_ + "/tokenizer");
  tokenizer->save(folder_ + "/tokenizer");
}

// It was empty, so all in it is ours.
void NewRunFolder::clear() noexcept {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code stays;
    fs::remove_all(entry->path(), stays);
  }
}

}  // namespace reprise::apps::gpt
