// Folders of images: which files they hold, and in which classes.
#include "reprise/data/datasets/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reprise/io/images/png.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_error;
using reprise::testing::TempFolder;
using Names = std::vector<std::string>;

// A gray image of one pixel.
std::string png(int value) {
  io::Image image;
  image.resize(1, 1, 1);
  image.pixels[0] = uint8_t(value);
  return io::encode_png(image);
}

// The files of a set with their labels: "a/x.png=0".
Names listed(const ImageFolder& set, const std::string& root) {
  Names out;
  for (int64_t i = 0; i < set.size(); ++i) {
    EXPECT_TRUE(set.name(i).starts_with(root + "/"));
    out.push_back(set.name(i).substr(root.size() + 1) + "=" + std::to_string(set.label(i)));
  }
  return out;
}

TEST(ImageFolder, HasAClassForEachFolder) {
  TempFolder folder;
  for (const char* file :
       {"b/2.png", "b/1.png", "b/deep/er/3.JPG", "a/x.jpeg", "a/notes.txt", "a/.hidden.png"})
    folder.write(file, png(7));
  ImageFolder set(folder.path());
  EXPECT_EQ(set.class_names(), (Names{"a", "b"}));
  EXPECT_EQ(listed(set, folder.path()), (Names{"a/x.jpeg=0", "b/1.png=1", "b/2.png=1", "b/deep/er/3.JPG=1"}));
  io::Image image;
  set.read(3, {}, image);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{7, 7, 7}));
}

TEST(ImageFolder, NamesTheFileThatItCannotRead) {
  TempFolder folder;
  folder.write("a/1.png", png(1)), folder.write("b/2.png", "text");
  ImageFolder set(folder.path());
  io::Image image;
  expect_error([&] { set.read(1, {}, image); },
               "decode: " + folder.path() + "/b/2.png: is neither JPEG nor PNG");
}

TEST(ClassNames, AreSortedByBytes) {
  TempFolder folder;
  for (const char* name : {"1", "2", "10", "Z", "a"}) folder.write(std::string(name) + "/x.png", png(1));
  EXPECT_EQ(ImageFolder(folder.path()).class_names(), (Names{"1", "10", "2", "Z", "a"}));
}

TEST(ClassNames, LeaveHiddenFoldersOut) {
  TempFolder folder;
  for (const char* name : {".ipynb_checkpoints", "a", "b"})
    folder.write(std::string(name) + "/x.png", png(1));
  EXPECT_EQ(ImageFolder(folder.path()).class_names(), (Names{"a", "b"}));
}

TEST(ClassNames, EmptyFolderIsAnErrorUnlessAllowed) {
  TempFolder folder;
  folder.write("a/x.png", png(1)), folder.write("b/readme.txt", ""), folder.write("c/x.png", png(1));
  expect_error([&] { ImageFolder set(folder.path()); }, folder.path() + "/b: the class holds no images");
  ImageFolder set(folder.path(), {.empty_classes = EmptyClasses::allow});
  EXPECT_EQ(set.class_names(), (Names{"a", "b", "c"}));
  EXPECT_EQ(set.label(1), 2);
}

TEST(ClassNames, OfValidationAreTrainings) {
  TempFolder folder;
  for (const char* file : {"train/a/1.png", "train/b/1.png", "train/c/1.png", "val/c/1.png", "val/b/1.png"})
    folder.write(file, png(1));
  ImageFolder train(*split_folder(folder.path(), Split::train));
  std::string val = *split_folder(folder.path(), Split::validation);
  ImageFolder lacking(val, {.class_names = train.class_names()});
  EXPECT_EQ(lacking.class_names(), train.class_names());
  EXPECT_EQ(listed(lacking, val), (Names{"b/1.png=1", "c/1.png=2"}));
  folder.write("val/d/1.png", png(1));
  expect_error([&] { ImageFolder set(val, {.class_names = train.class_names()}); },
               "dataset: " + val + ": has the class \"d\", which is none of the 3 classes given");
}

// What the end of training looks at is never what it validates on.
TEST(SplitFolder, TestIsNoValidation) {
  TempFolder folder;
  folder.write("test/a/1.png", png(1));
  EXPECT_EQ(split_folder(folder.path(), Split::test), folder / "test");
  EXPECT_FALSE(split_folder(folder.path(), Split::validation).has_value());
  folder.write("valid/a/1.png", png(1));
  EXPECT_EQ(split_folder(folder.path(), Split::validation), folder / "valid");
}

TEST(ClassNames, AreAtLeastTwo) {
  TempFolder folder;
  folder.write("a/1.png", png(1));
  expect_error([&] { ImageFolder set(folder.path()); },
               folder.path() + ": there is nothing to tell apart: classes: 1");
}

TEST(ImageFolder, WithoutImagesOrClassesIsAnError) {
  TempFolder folder;
  expect_error([&] { ImageFolder set(folder.path()); }, folder.path() + ": holds no images");
  expect_error([&] { ImageFolder set(folder / "missing"); }, folder / "missing");
  std::string file = folder.write("x.png", png(1));
  expect_error([&] { ImageFolder set(file); }, file + ": is not a folder");
  expect_error([&] { ImageFolder set(folder.path()); }, folder.path() + ": 1 images have no class");
  EXPECT_FALSE(split_folder(folder.path(), Split::train).has_value());
}

TEST(ImageFolder, FollowsLinksInsideTheRootOnly) {
  TempFolder outside, folder;
  outside.write("x.png", png(1));
  folder.write("a/1.png", png(1)), folder.write("b/1.png", png(2));
  std::filesystem::create_symlink("../a/1.png", folder / "b/2.png");
  std::filesystem::create_directory_symlink("../a", folder / "b/more");
  EXPECT_EQ(listed(ImageFolder(folder.path()), folder.path()),
            (Names{"a/1.png=0", "b/1.png=1", "b/2.png=1", "b/more/1.png=1"}));
  auto refuses = [&](const std::string& target, const std::string& link, const std::string& fact) {
    std::filesystem::create_symlink(target, folder / link);
    expect_error([&] { ImageFolder set(folder.path()); }, folder / link, fact);
    std::filesystem::remove(folder / link);
  };
  refuses(outside / "x.png", "a/2.png", "this link leads out of " + folder.path());
  refuses(outside.path(), "c", "this link leads out of " + folder.path());
  refuses("..", "a/circle", "this link leads round in a circle");
  refuses("nowhere.png", "a/3.png", "No such file");
}

TEST(ImageFolder, TakesLabelsFromAFile) {
  TempFolder folder;
  folder.write("one/1.png", png(1)), folder.write("one, two/2.png", png(2)), folder.write("3.png", png(3));
  auto with = [&](const std::string& csv) {
    return ImageFolder(folder.path(), {.labels_file = folder.write("labels.csv", csv)});
  };
  ImageFolder set = with("path,class\none/1.png,dog\r\n\n3.png,cat\none, two/2.png,dog\n");
  EXPECT_EQ(set.class_names(), (Names{"cat", "dog"}));
  EXPECT_EQ(listed(set, folder.path()), (Names{"one/1.png=1", "3.png=0", "one, two/2.png=1"}));
  expect_error([&] { with("3.png,a\nother.png,b\n"); }, "labels.csv, line 2: there is no file ", "other.png");
  expect_error([&] { with("3.png\n"); }, "labels.csv, line 1: wanted path,class: \"3.png\"");
  expect_error(
      [&] { with("3.png,a\n../" + folder.path().substr(folder.path().rfind('/') + 1) + "x/1.png,b\n"); },
      "labels.csv, line 2: there is no file");
  TempFolder outside;
  std::string way = "../" + outside.path().substr(outside.path().rfind('/') + 1) + "/x.png";
  outside.write("x.png", png(1));
  expect_error([&] { with("3.png,a\n" + way + ",b\n"); },
               "labels.csv, line 2: ", "leads out of " + folder.path());
  expect_error([&] { with("path,class\n"); }, "classes: 0");
}

}  // namespace
}  // namespace reprise::data
