// Which files of a folder are images of a data set.
#pragma once

#include <string>
#include <vector>

namespace reprise::data {

/// Walks the folder of a data set. Links are followed where they lead into the data set; one that leads out of it, or round
/// in a circle, is an Error that names it. What is hidden (".name") is left out.
class ImageFiles {
 public:
  explicit ImageFiles(const std::string& root);

  const std::string& root() const { return root_; }
  /// The folders in the root, sorted by their bytes. Error if there are image files beside them.
  std::vector<std::string> folders() const;
  /// The image files below `folder` of the root, to any depth, as paths from the root, sorted by their bytes. A file is one
  /// by its ending, be it of a format that is not read: that is told when it is.
  std::vector<std::string> below(const std::string& folder) const;
  /// Error unless `path` from the root, which `where` asks for, is there and does not leave the root.
  void check_file(const std::string& path, const std::string& where) const;

 private:
  enum class Kind { file, folder, neither };
  struct Entry {
    std::string name;
    Kind kind;
  };
  std::vector<Entry> entries(const std::string& folder) const;
  std::string resolved(const std::string& path) const;

  std::string root_, resolved_root_;
};

}  // namespace reprise::data
