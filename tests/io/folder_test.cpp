// Listing and removing folders.
#include "reprise/io/folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::TempFolder;
namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no Error";
}

TEST(Folder, NamesAllThatIsInIt) {
  TempFolder folder;
  write_file(folder.path() + "/b", "");
  write_file(folder.path() + "/.hidden", "");
  fs::create_directory(folder.path() + "/a");
  std::vector<std::string> names = names_in(folder.path());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "a", "b"}));
}

TEST(Folder, WhatCannotBeListedIsAnErrorThatNamesIt) {
  TempFolder folder;
  write_file(folder.path() + "/file", "");
  EXPECT_NE(message_of([&] { names_in(folder.path() + "/none"); }).find("/none: No such file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { names_in(folder.path() + "/file"); }).find("/file: Not a directory"),
            std::string::npos);
}

TEST(Folder, FilesBelowItAreFoundOnceAndLinksToFoldersAreNotFollowed) {
  TempFolder folder;
  std::string top = folder.path();
  fs::create_directories(top + "/a/b");
  fs::create_directory(folder.path() + "/empty");
  for (const char* name : {"/one", "/a/two", "/a/b/three"}) write_file(top + name, "x");
  fs::create_directory_symlink(top, top + "/a/loop");
  fs::create_symlink(top + "/one", top + "/a/link");
  fs::create_symlink(top + "/none", top + "/broken");
  std::vector<std::string> files = files_below(top);
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files,
            (std::vector<std::string>{top + "/a/b/three", top + "/a/link", top + "/a/two", top + "/one"}));
  EXPECT_NE(message_of([&] { files_below(top + "/gone"); }).find("/gone: No such file"), std::string::npos);
}

TEST(Folder, IsRemovedWithItsFilesButNotWithAFolderInside) {
  TempFolder folder;
  std::string flat = folder.path() + "/flat", nested = folder.path() + "/nested";
  fs::create_directories(flat);
  fs::create_directories(nested + "/inner");
  write_file(flat + "/file", "x");
  write_file(nested + "/inner/kept", "x");
  remove_flat_folder(flat);
  EXPECT_FALSE(fs::exists(flat));
  EXPECT_NE(message_of([&] { remove_flat_folder(nested); }).find("nested/inner"), std::string::npos);
  EXPECT_TRUE(fs::exists(nested + "/inner/kept"));
}

}  // namespace
}  // namespace reprise::io
