// Making folders, and undoing that.
#include "reprise/train/made_folders.h"

#include <unistd.h>

#include <filesystem>

#include "reprise/io/file.h"
#include "reprise/train/option_error.h"

namespace reprise::train {
namespace {

namespace fs = std::filesystem;

// Needs no memory. What fails is ignored: above all, that a folder is not empty.
void remove_empty(const std::vector<std::string>& folders) noexcept {
  for (const std::string& folder : folders) ::rmdir(folder.c_str());
}

// The folders of the path that are missing, the innermost first.
std::vector<std::string> missing_folders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (fs::path path = fs::absolute(folder, ignored); !fs::exists(fs::symlink_status(path, ignored));
       path = path.parent_path()) {
    if (path.has_filename()) missing.push_back(path);  // not for the part after a trailing slash
    if (path == path.parent_path()) break;
  }
  return missing;
}

}  // namespace

MadeFolders::MadeFolders(const std::string& folder) : made_(missing_folders(folder)) {
  try {
    about(folder, [&] { io::make_folders_durable(folder); });
  } catch (const Error&) {
    remove_empty(made_);
    throw;
  }
}

MadeFolders::~MadeFolders() { remove_empty(made_); }

}  // namespace reprise::train
