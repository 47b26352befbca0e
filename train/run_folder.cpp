// Free, begun, saved or not ours.
#include "reprise/train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "reprise/io/file.h"
#include "reprise/io/file_calls.h"
#include "reprise/io/folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"

namespace reprise::train {
namespace {

namespace fs = std::filesystem;

// What a run that was killed at its very start leaves, before anything is in it; or the calls of ranks that failed then.
bool means_nothing(const std::string& name) {
  return name == RunLock::file_name || name.starts_with("config.toml.tmp.") || name == "flight" ||
         (name.starts_with("rank-") && name.ends_with(".log"));
}

// Makes the first free of runs/NAME, runs/NAME-2, ...: mkdir succeeds for one process only.
std::string make_free_folder(const std::string& name) {
  for (int i = 1;; ++i) {
    std::string folder = "runs/" + name + (i == 1 ? "" : "-" + std::to_string(i));
    if (io::file_calls().mkdir(folder.c_str(), 0777) == 0) {
      io::sync_folder("runs");
      return folder;
    }
    int reason = errno;
    check(reason == EEXIST, "mkdir: ", folder, ": ", std::strerror(reason), " (errno ", reason, ")");
  }
}

}  // namespace

FolderState state_of(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    check(!error, "--out ", folder, ": ", error.message());
    return FolderState::free;
  }
  check(fs::is_directory(folder, error), "--out ", folder, ": is there already, and no folder");
  if (has_checkpoint(folder)) return FolderState::saved;
  if (io::exists(folder + "/config.toml")) return FolderState::begun;
  std::vector<std::string> names = under_option("--out", [&] { return io::names_in(folder); });
  return std::all_of(names.begin(), names.end(), means_nothing) ? FolderState::free : FolderState::foreign;
}

void check_free(const std::string& folder) {
  switch (state_of(folder)) {
    case FolderState::free:
      return;
    case FolderState::foreign:
      fail("--out ", folder,
           " holds something already that is no run: choose another folder (--resume is for runs)");
    case FolderState::begun:
      fail("--out ", folder,
           " holds a run that was stopped before its first checkpoint: --resume starts it again "
           "with its own options, or choose another folder");
    case FolderState::saved:
      fail("--out ", folder, " holds a run already: --resume goes on with it, or choose another folder");
  }
}

NewRunFolder::NewRunFolder(const std::string& folder, const std::string& name, const RunLock::Tell& tell)
    : path_(folder) {
  if (!folder.empty()) check_free(folder);
  try {
    made_.emplace(folder.empty() ? "runs" : folder);
    if (folder.empty()) {
      path_ = make_free_folder(name);
      made_->add(path_);
    }
    lock_.emplace(path_, tell);
    check_free(path_);  // until it was locked, another process may have begun and ended a run there
  } catch (const Error& error) {
    std::string text = error.what();
    fail(text.starts_with("--out") ? "" : "--out ", text);
  }
}

NewRunFolder::~NewRunFolder() {
  try {
    std::error_code error;
    bool recorded = fs::file_size(path_ + "/metrics.jsonl", error) > 0 && !error;
    bool saved = fs::exists(path_ + "/checkpoints", error) || error;
    if (!recorded && !saved) clear();
  } catch (const std::exception&) {
    // Without memory, or the folder unreadable: what stays is a run that --resume starts again.
  }
}

// Only what training makes, and of the folders only those that are empty then.
void NewRunFolder::clear() {
  std::error_code ignored;
  for (const char* name :
       {"config.toml", "data.toml", "metrics.jsonl", "loss.svg", "samples.txt", "tokenizer"})
    fs::remove_all(path_ + "/" + name, ignored);
  for (const std::string& name : io::names_in(path_))
    if (name.starts_with("events.out.tfevents.")) fs::remove(path_ + "/" + name, ignored);
  fs::remove(path_ + "/" + RunLock::file_name, ignored);
}

}  // namespace reprise::train
