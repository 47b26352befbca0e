// A folder for one test, removed with everything in it at the end, and what tests of files need around it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/core/error.h"
#include "reprise/tests/support/errors.h"

namespace reprise::testing {

class TempFolder {
 public:
  TempFolder() {
    // In memory where that is possible: tests write thousands of small files and sync some.
    for (std::string parent : {std::string("/dev/shm"), std::filesystem::temp_directory_path().string()}) {
      path_ = parent + "/reprise_test_XXXXXX";
      if (mkdtemp(path_.data()) != nullptr) return;
    }
    throw Error("test: no temporary folder");
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  /// Writes a file, with the folders it needs; returns its path.
  std::string write(std::string_view name, std::string_view contents) const {
    std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << contents;
    return path.string();
  }

 private:
  std::string path_;
};

}  // namespace reprise::testing
