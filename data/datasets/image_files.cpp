#include "reprise/data/datasets/image_files.h"

#include <algorithm>
#include <filesystem>

#include "reprise/core/error.h"
#include "reprise/io/folder.h"

namespace reprise::data {
namespace {

namespace fs = std::filesystem;

bool is_image_name(std::string name) {
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = char(c + ('a' - 'A'));
  for (const char* ending : {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif",
                             ".tiff", ".heic", ".avif", ".jp2", ".jxl"})
    if (name.ends_with(ending)) return true;
  return false;
}

bool is_inside(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder.ends_with('/') ? folder : folder + '/');
}

}  // namespace

ImageFiles::ImageFiles(const std::string& root) : root_(root), resolved_root_(resolved(root)) {
  std::error_code unseen;
  check(fs::is_directory(root, unseen), "dataset: ", root, ": is not a folder");
}

// Where `path` is, at the end of its links.
std::string ImageFiles::resolved(const std::string& path) const {
  std::error_code error;
  std::string end = fs::canonical(path, error).string();
  check(!error, "dataset: ", path, ": ", error.message());
  return end;
}

std::vector<ImageFiles::Entry> ImageFiles::entries(const std::string& folder) const {
  std::vector<Entry> out;
  for (std::string& name : io::names_in(folder)) {
    if (name.starts_with('.')) continue;
    std::string path = folder + "/" + name;
    std::error_code error;
    fs::file_status status = fs::symlink_status(path, error);
    bool is_link = fs::is_symlink(status);
    if (is_link) status = fs::status(path, error);
    Kind kind = Kind::neither;
    if (fs::is_directory(status)) kind = Kind::folder;
    if (!fs::is_directory(status) && is_image_name(name)) kind = Kind::file;
    if (is_link && kind != Kind::neither)
      check(is_inside(resolved(path), resolved_root_), "dataset: ", path, ": this link leads out of ", root_);
    out.push_back({std::move(name), kind});
  }
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return out;
}

std::vector<std::string> ImageFiles::folders() const {
  std::vector<std::string> out;
  int64_t stray = 0;
  for (const Entry& entry : entries(root_)) {
    if (entry.kind == Kind::folder) out.push_back(entry.name);
    stray += entry.kind == Kind::file;
  }
  check(stray == 0, "dataset: ", root_, ": ", stray, " images have no class: each class is a folder there");
  return out;
}

std::vector<std::string> ImageFiles::below(const std::string& folder) const {
  struct Visit {
    std::string path;                   // from the root
    std::vector<std::string> resolved;  // it and the folders it was reached through
  };
  std::vector<std::string> files;
  std::vector<Visit> visits{{folder, {resolved_root_}}};
  while (!visits.empty()) {
    Visit visit = std::move(visits.back());
    visits.pop_back();
    std::string full = root_ + "/" + visit.path, here = resolved(full);
    bool is_circle = std::find(visit.resolved.begin(), visit.resolved.end(), here) != visit.resolved.end();
    check(!is_circle, "dataset: ", full, ": this link leads round in a circle");
    visit.resolved.push_back(here);
    for (const Entry& entry : entries(full)) {
      std::string path = visit.path + "/" + entry.name;
      if (entry.kind == Kind::file) files.push_back(path);
      if (entry.kind == Kind::folder) visits.push_back({path, visit.resolved});
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void ImageFiles::check_file(const std::string& path, const std::string& where) const {
  std::string full = root_ + "/" + path;
  std::error_code error;
  check(!path.empty() && fs::is_regular_file(full, error), "dataset: ", where, ": there is no file ", full);
  check(is_inside(resolved(full), resolved_root_), "dataset: ", where, ": ", full, " leads out of ", root_);
}

}  // namespace reprise::data
