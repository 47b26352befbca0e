// ImageFolder: image files in a folder for each class, or listed with their classes in a CSV file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/data/dataset.h"
#include "reprise/data/datasets/split.h"

namespace reprise::data {

/// What a folder without an image is: an Error, or a class.
enum class EmptyClasses { refuse, allow };

/// What the classes are, and what says an image's class.
struct ImageFolderOptions {
  /// The classes of the set that this is another part of: a class that is missing here keeps its number, one that is new
  /// is an Error. Without it the classes are the folders, sorted by their bytes: "1", "10", "2".
  std::vector<std::string> class_names{};
  /// Whether a folder without an image may be a class. Among given `class_names` it may.
  EmptyClasses empty_classes = EmptyClasses::refuse;
  /// A CSV file of lines `path,class` (paths from the root; a first line that says just that is skipped), in place of the
  /// folders.
  std::string labels_file{};
};

/// Image files, decoded as they are read: in memory are 16 bytes and the path of each.
class ImageFolder : public Dataset {
 public:
  /// Lists `root`/CLASS/.../FILE. Error if there are no images, fewer than two classes, an image without a class, or a link
  /// that leads out of the root. Files are looked into when they are read.
  explicit ImageFolder(const std::string& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return int64_t(entries_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  std::string name(int64_t index) const override;  ///< the file's path
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override;

 private:
  struct Entry {
    uint64_t path;  // where it begins in paths_
    uint32_t label;
  };
  void add(const std::string& path, int64_t label);
  void add_folders(const ImageFolderOptions& options);
  void add_listed(const ImageFolderOptions& options);

  std::string root_;
  std::vector<std::string> class_names_;
  std::string paths_;  // from the root, each with a zero behind it
  std::vector<Entry> entries_;
};

/// The folder of a part of a data set: `root`/train, `root`/val (or validation, valid) or `root`/test; nothing where the root
/// has no such folder.
std::optional<std::string> split_folder(const std::string& root, Split split);

}  // namespace reprise::data
