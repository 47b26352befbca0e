// Listing and removing folders.
#include "reprise/io/folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "reprise/core/error.h"
#include "reprise/io/file_calls.h"

namespace reprise::io {
namespace {

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::unique_ptr<DIR, Close> open_folder(const std::string& path) {
  DIR* folder = nullptr;
  do folder = ::opendir(path.c_str());
  while (!folder && errno == EINTR);
  if (!folder) fail_with_errno("list", path);
  return std::unique_ptr<DIR, Close>(folder);
}

// The answer of a call of the family of stat.
bool is_found(int answer, const std::string& path) {
  if (answer == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail_with_errno("stat", path);
}

}  // namespace

bool exists(const std::string& path) {
  struct stat unused {};
  return is_found(::stat(path.c_str(), &unused), path);
}

bool exists_or_links(const std::string& path) {
  struct stat unused {};
  return is_found(::lstat(path.c_str(), &unused), path);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::unique_ptr<DIR, Close> open = open_folder(folder);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (!entry && errno != 0) fail_with_errno("list", folder);
    if (!entry) return names;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files, folders{folder};
  struct stat top {
  }, link{}, end{};
  if (::stat(folder.c_str(), &top) != 0) fail_with_errno("stat", folder);
  while (!folders.empty()) {
    std::string at = std::move(folders.back());
    folders.pop_back();
    for (const std::string& name : names_in(at)) {
      std::string path = at.ends_with('/') ? at + name : at + '/' + name;
      if (::lstat(path.c_str(), &link) != 0) continue;  // gone meanwhile
      if (S_ISDIR(link.st_mode) && link.st_dev == top.st_dev) folders.push_back(path);
      if (::stat(path.c_str(), &end) == 0 && S_ISREG(end.st_mode)) files.push_back(path);
    }
  }
  return files;
}

void remove_flat_folder(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    std::string path = folder + "/" + name;
    if (file_calls().unlink(path.c_str()) != 0) fail_with_errno("remove", path);
  }
  if (::rmdir(folder.c_str()) != 0) fail_with_errno("remove", folder);
}

}  // namespace reprise::io
