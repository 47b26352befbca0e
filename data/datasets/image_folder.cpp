#include "reprise/data/datasets/image_folder.h"

#include <filesystem>
#include <set>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/data/datasets/class_names.h"
#include "reprise/data/datasets/image_files.h"
#include "reprise/io/file.h"
#include "reprise/io/images/decode.h"

namespace reprise::data {
namespace {

struct Line {
  int64_t number;
  std::string path, name;  ///< of the class
};

// The last comma of a line is the one before the class.
std::vector<Line> read_labels(const std::string& file) {
  std::string text = io::read_file(file);
  std::vector<Line> lines;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (number == 1 && line == "path,class")) continue;
    size_t comma = line.rfind(',');
    check(comma != std::string::npos && comma > 0 && comma + 1 < line.size(), "dataset: ", file, ", line ",
          number, ": wanted path,class: ", quote(line));
    lines.push_back({number, line.substr(0, comma), line.substr(comma + 1)});
  }
  return lines;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& root, const ImageFolderOptions& options) : root_(root) {
  if (options.labels_file.empty())
    add_folders(options);
  else
    add_listed(options);
  check(size() > 0, "dataset: ", options.labels_file.empty() ? root : options.labels_file,
        ": holds no images");
}

void ImageFolder::add_folders(const ImageFolderOptions& options) {
  ImageFiles files(root_);
  std::vector<std::string> folders = files.folders();
  check(!folders.empty(), "dataset: ", root_, ": holds no images: each class is a folder there");
  class_names_ = names_of_classes({folders.begin(), folders.end()}, options.class_names, root_);
  bool may_be_empty = options.empty_classes == EmptyClasses::allow || !options.class_names.empty();
  auto numbers = numbers_of_classes(class_names_);
  for (const std::string& folder : folders) {
    std::vector<std::string> images = files.below(folder);
    check(!images.empty() || may_be_empty, "dataset: ", root_, "/", folder, ": the class holds no images");
    for (const std::string& path : images) add(path, numbers.at(folder));
  }
}

void ImageFolder::add_listed(const ImageFolderOptions& options) {
  ImageFiles files(root_);
  std::vector<Line> lines = read_labels(options.labels_file);
  std::set<std::string> found;
  for (const Line& line : lines) found.insert(line.name);
  class_names_ = names_of_classes(found, options.class_names, options.labels_file);
  auto numbers = numbers_of_classes(class_names_);
  for (const Line& line : lines) {
    files.check_file(line.path, options.labels_file + ", line " + std::to_string(line.number));
    add(line.path, numbers.at(line.name));
  }
}

void ImageFolder::add(const std::string& path, int64_t label) {
  entries_.push_back({paths_.size(), uint32_t(label)});
  paths_.append(path.c_str(), path.size() + 1);
}

int64_t ImageFolder::label(int64_t index) const {
  check_index(index);
  return entries_[size_t(index)].label;
}

std::string ImageFolder::name(int64_t index) const {
  check_index(index);
  return root_ + "/" + (paths_.data() + entries_[size_t(index)].path);
}

void ImageFolder::read(int64_t index, const io::DecodeOptions& options, io::Image& image) const {
  io::read_image(name(index), options, image);
}

std::optional<std::string> split_folder(const std::string& root, Split split) {
  std::vector<std::string> names = {"train"};
  if (split == Split::validation) names = {"val", "validation", "valid"};
  if (split == Split::test) names = {"test"};
  for (const std::string& name : names) {
    std::error_code unseen;
    if (std::filesystem::is_directory(root + "/" + name, unseen)) return root + "/" + name;
  }
  return {};
}

}  // namespace reprise::data
