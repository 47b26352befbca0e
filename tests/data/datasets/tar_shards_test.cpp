// Shards: samples are read by their place, labels in each way they are written, and the index beside a shard only saves time.
#include "reprise/data/datasets/tar_shards.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "reprise/data/datasets/shard.h"
#include "reprise/io/file.h"
#include "reprise/io/images/png.h"
#include "reprise/io/tar.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::data {
namespace {

using reprise::testing::expect_error;
using reprise::testing::TempFolder;
using Names = std::vector<std::string>;
using Files = std::vector<std::pair<std::string, std::string>>;

// A gray image of one pixel.
std::string png(int value) {
  io::Image image;
  image.resize(1, 1, 1);
  image.pixels[0] = uint8_t(value);
  return io::encode_png(image);
}

std::string write_shard(const std::string& path, const Files& files) {
  io::TarWriter writer(path);
  for (const auto& [name, contents] : files) writer.add(name, contents);
  writer.commit();
  return path;
}

uint8_t pixel(const Dataset& set, int64_t index) {
  io::Image image;
  set.read(index, {.channels = 1}, image);
  return image.pixels.at(0);
}

TEST(TarShards, ReadSamplesOfAllShards) {
  TempFolder folder;
  write_shard(folder / "b.tar", {{"x/3.v2.PNG", png(3)}, {"x/3.cls", "0\n"}});
  write_shard(folder / "a.tar", {{"__meta__", "{}"},
                                 {"1.jpg", png(1)},
                                 {"1.cls", "2"},
                                 {"1.txt", "a caption"},
                                 {"2.cls", "1"},
                                 {"2.jpeg", png(2)},
                                 {"._2.jpeg", "AppleDouble"}});
  expect_error([&] { TarShards set(shards_in(folder.path())); },
               "b.tar, byte 512: the sample \"x/3\" has no image");
  write_shard(folder / "b.tar", {{"x/3.PNG", png(3)}, {"x/3.cls", "0\n"}});
  TarShards set(shards_in(folder.path()));
  ASSERT_EQ(set.size(), 3);
  EXPECT_EQ(set.class_names(), (Names{"0", "1", "2"}));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(set.label(i), 2 - i);
    EXPECT_EQ(pixel(set, i), i + 1);
  }
  EXPECT_EQ(set.name(2), folder / "b.tar" + ", byte 512, \"x/3\"");
}

TEST(TarShards, TakeLabelsFromJsonAndNames) {
  TempFolder folder;
  std::string json = write_shard(folder / "json.tar", {{"1.png", png(1)},
                                                       {"1.json", R"({"other": [1], "class": "dog"})"},
                                                       {"2.png", png(2)},
                                                       {"2.json", R"({"class": "cat"})"}});
  TarShards named({json}, {.json_key = "class"});
  EXPECT_EQ(named.class_names(), (Names{"cat", "dog"}));
  EXPECT_EQ(named.label(0), 1);
  TarShards part({json}, {.class_names = {"bee", "dog", "cat"}, .json_key = "class"});
  EXPECT_EQ(part.label(1), 2);
  expect_error(
      [&] {
        TarShards set({json}, {.class_names = {"bee", "dog"}, .json_key = "class"});
      },
      "has the class \"cat\", which is none of the 2 classes given");
  expect_error([&] { TarShards set({json}); }, "the sample \"1\" has no label (cls, or \"label\" in json)");
}

TEST(TarShards, TakeNamesFromTheFileBeside) {
  TempFolder folder;
  std::string shard = write_shard(folder / "a.tar", {{"1.png", png(1)}, {"1.cls", "1"}});
  folder.write("classes.txt", "cat\ndog\n");
  EXPECT_EQ(TarShards({shard}).class_names(), (Names{"cat", "dog"}));
  write_shard(shard, {{"1.png", png(1)}, {"1.json", R"({"label": 2})"}});
  expect_error([&] { TarShards set({shard}); },
               shard + ", byte 512, \"1\": its label is 2, but there are 2 classes");
}

TEST(TarShards, BrokenSamplesAreErrors) {
  TempFolder folder;
  auto refuses = [&](const Files& files, const std::string& fact) {
    std::string shard = write_shard(folder / "a.tar", files);
    expect_error([&] { TarShards set({shard}); }, shard, fact);
  };
  refuses({}, "holds no images");
  refuses({{"1.png", png(1)}}, "byte 512: the sample \"1\" has no label");
  refuses({{"1.png", png(1)}, {"1.cls", "0"}, {"1.jpg", png(1)}}, "the sample \"1\" has two images");
  refuses({{"1.png", png(1)}, {"1.cls", "0"}, {"1.json", R"({"label": 1})"}},
          "has two labels: \"0\" and \"1\"");
  refuses({{"1.png", png(1)}, {"1.cls", "0"}, {"2.png", png(1)}, {"2.cls", "1"}, {"1.cls", "0"}},
          "the sample \"1\" is there twice");
  refuses({{"1.png", png(1)}, {"1.cls", "0"}, {"2.png", png(1)}, {"2.cls", "x"}},
          "its label is \"x\", but the first one");
  refuses({{"1.png", ""}, {"1.cls", "0"}}, "has an image of 0 bytes");
  expect_error([&] { TarShards set(Names{}); }, "no shards are given");
  TempFolder empty;
  expect_error([&] { shards_in(empty.path()); }, empty.path() + ": holds no *.tar");
}

TEST(ShardIndex, IsReadInPlaceOfTheShard) {
  TempFolder folder;
  std::string shard = write_shard(folder / "a.tar", {{"1.png", png(1)}, {"1.cls", "7"}});
  read_indexed_shard(shard, "label");
  std::string index = io::read_file(shard + ".index");
  // What another hand writes into the index is what is read: so the shard was not.
  size_t at = index.find("\"7\"]");
  ASSERT_NE(at, std::string::npos);
  folder.write("a.tar.index", index.replace(at, 3, "\"8\""));
  EXPECT_EQ(read_indexed_shard(shard, "label").at(0).label, "8");
  EXPECT_EQ(read_shard(shard, "label").at(0).label, "7");
}

TEST(ShardIndex, IsWrittenAnewForAnotherShard) {
  TempFolder folder;
  std::string shard = write_shard(folder / "a.tar", {{"1.png", png(1)}, {"1.cls", "0"}});
  EXPECT_EQ(read_indexed_shard(shard, "label").at(0).label, "0");
  auto time = std::filesystem::last_write_time(shard);
  write_shard(shard, {{"1.png", png(2)}, {"1.cls", "1"}});  // of the same size
  std::filesystem::last_write_time(shard, time + std::chrono::seconds(1));
  EXPECT_EQ(read_indexed_shard(shard, "label").at(0).label, "1");
  EXPECT_EQ(read_indexed_shard(shard, "label").at(0).label, "1");
}

TEST(ShardIndex, DamageInItDoesNotMatter) {
  TempFolder folder;
  std::string shard = write_shard(folder / "a.tar", {{"\xff.png", png(1)}, {"\xff.cls", "3"}});
  read_indexed_shard(shard, "label");
  std::string index = io::read_file(shard + ".index");
  for (size_t size = 0; size < index.size(); size += 5) {
    folder.write("a.tar.index", index.substr(0, size));
    std::vector<ShardSample> samples = read_indexed_shard(shard, "label");
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_EQ(samples[0].key, "\xff");
    EXPECT_EQ(samples[0].offset, 512u);
    EXPECT_EQ(samples[0].label, "3");
    EXPECT_EQ(io::read_file(shard + ".index"), index);
  }
  size_t at = index.find("512");
  folder.write("a.tar.index", index.replace(at, 3, "9999"));  // beyond the shard
  EXPECT_EQ(read_indexed_shard(shard, "label").at(0).offset, 512u);
}

}  // namespace
}  // namespace reprise::data
