// The optimizer's state in files of several ranks: whole again, or an Error that says what is wrong with which file.
#include "reprise/train/optimizer_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "reprise/io/safetensors.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/errors.h"

namespace reprise::train {
namespace {

using nn::NamedTensors;
using testing::TempFolder;

Tensor floats(const std::vector<float>& values) { return Tensor::from(values, {int64_t(values.size())}); }
Tensor sizes(const std::vector<int64_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }

// A matrix of which the second rank has nothing, a number, a tensor without elements, and a count.
struct OptimizerFiles : ::testing::Test {
  TempFolder folder;
  std::vector<NamedTensors> ranks = {
      {{"w:moment:0", floats({1, 2})},
       {"w:moment:shape", sizes({2, 3})},
       {"b:moment:0", floats({9})},
       {"b:moment:shape", sizes({})},
       {"none:moment:0", floats({})},
       {"none:moment:shape", sizes({0, 4})},
       {"steps", sizes({7})}},
      {{"w:moment:2", floats({})}, {"w:moment:shape", sizes({2, 3})}, {"steps", sizes({8})}},
      {{"w:moment:2", floats({3, 4, 5, 6})}}};

  void write() {
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      write_optimizer(folder.path(), ranks[rank], int(rank), int(ranks.size()));
  }
  void expect_refused(const std::vector<std::string>& parts) {
    write();
    testing::expect_error([&] { read_optimizer(folder.path()); }, parts);
  }
};

TEST_F(OptimizerFiles, AreJoined) {
  write();
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : read_optimizer(folder.path())) state[name] = tensor;
  ASSERT_EQ(state.size(), 4u);
  EXPECT_EQ(state["w:moment"].shape(), (Shape{2, 3}));
  EXPECT_EQ(state["w:moment"].to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(state["b:moment"].shape(), Shape{});
  EXPECT_EQ(state["b:moment"].item(), 9);
  EXPECT_EQ(state["none:moment"].shape(), (Shape{0, 4}));
  EXPECT_EQ(state["steps"].to_vector<int64_t>(), std::vector<int64_t>{7});
}

// A rank reads what it has a part of, from whatever files hold it.
TEST_F(OptimizerFiles, GiveTheWantedPartAlone) {
  const NamedTensors own = {{"w:moment:1", floats({0, 0, 0})}, {"w:moment:shape", sizes({2, 3})}};
  auto expect_part = [&] {
    std::map<std::string, Tensor> state;
    for (const auto& [name, tensor] : read_optimizer(folder.path(), own)) state[name] = tensor;
    EXPECT_FALSE(state.contains("w:moment"));
    EXPECT_EQ(state.at("w:moment:1").to_vector<float>(), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(state.at("w:moment:shape").to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(state.at("b:moment").item(), 9);
  };
  write();
  expect_part();
  write_optimizer(folder.path(),
                  {{"w:moment", floats({1, 2, 3, 4, 5, 6}).reshape({2, 3})}, {"b:moment", floats({9})}}, 0,
                  1);
  expect_part();
  testing::expect_error(
      [&] {
        read_optimizer(folder.path(), {{"w:moment:5", floats({0, 0})}});
      },
      "w:moment has 6 elements, wanted those from 5 to 7");
}

TEST_F(OptimizerFiles, OfOneRankIsOne) {
  write_optimizer(folder.path(), {{"w:moment", floats({1, 2})}}, 0, 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "optimizer.safetensors"));
  EXPECT_EQ(read_optimizer(folder.path()).at(0).second.to_vector<float>(), (std::vector<float>{1, 2}));
}

// Without a word of it too, as before it was kept.
TEST_F(OptimizerFiles, SayHowTheyWereMade) {
  const std::map<std::string, std::string> made{{"zero", "2"}, {"micro_batches", "6"}, {"reduce", "tree"}};
  std::map<std::string, std::string> want = made;
  want["ranks"] = "3";
  for (int rank = 0; rank < 3; ++rank) write_optimizer(folder.path(), ranks[size_t(rank)], rank, 3, made);
  EXPECT_EQ(optimizer_origin(folder.path()), want);
  EXPECT_EQ(io::SafetensorsFile(folder / "optimizer-00003-of-00003.safetensors").metadata().at("part"), "3");
  EXPECT_EQ(read_optimizer(folder.path()).size(), 4u);
  TempFolder other;
  write_optimizer(other.path(), {{"w:moment", floats({1})}}, 0, 1, made);
  EXPECT_TRUE(io::SafetensorsFile(other / "optimizer.safetensors").metadata().empty());
  EXPECT_TRUE(optimizer_origin(other.path()).empty());
}

TEST_F(OptimizerFiles, OfAnotherPlaceOrSaveAreRefused) {
  const std::map<std::string, std::string> made{{"zero", "2"}};
  auto write_as = [&](const std::map<std::string, std::string>& metadata) {
    for (int rank = 0; rank < 3; ++rank) write_optimizer(folder.path(), ranks[size_t(rank)], rank, 3, made);
    io::NamedViews views;
    for (const auto& [name, tensor] : ranks[2]) views.emplace_back(name, tensor);
    io::write_safetensors(folder / "optimizer-00003-of-00003.safetensors", views, metadata);
  };
  auto expect_wrong = [&](const std::map<std::string, std::string>& metadata, const std::string& words) {
    write_as(metadata);
    testing::expect_error([&] { read_optimizer(folder.path()); },
                          {"optimizer-00003-of-00003.safetensors: its metadata says " + words});
  };
  expect_wrong({{"part", "2"}, {"ranks", "3"}, {"zero", "2"}}, "part \"2\", its name says 3");
  expect_wrong({{"part", "3"}, {"ranks", "4"}, {"zero", "2"}}, "ranks \"4\", its name says 3");
  expect_wrong({{"part", "3"}, {"ranks", "3"}, {"zero", "1"}}, "zero \"1\", that of ");
  expect_wrong({{"part", "3"}, {"ranks", "3"}}, "less than that of ");
  expect_wrong({{"part", "3"}, {"ranks", "3"}, {"zero", "2"}, {"reduce", "fast"}},
               "reduce \"fast\", that of ");
  write_as({{"part", "3"}, {"ranks", "3"}, {"zero", "2"}});
  EXPECT_EQ(read_optimizer(folder.path()).size(), 4u);
}

TEST_F(OptimizerFiles, OneThatIsMissingIsNamed) {
  write();
  std::filesystem::remove(folder / "optimizer-00002-of-00003.safetensors");
  testing::expect_error([&] { read_optimizer(folder.path()); }, {"optimizer-00002-of-00003.safetensors"});
  std::filesystem::remove(folder / "optimizer-00001-of-00003.safetensors");
  testing::expect_error([&] { read_optimizer(folder.path()); },
                        {"no optimizer.safetensors, nor optimizer-00001-of-N.safetensors"});
}

TEST_F(OptimizerFiles, OfTwoNumbersOfRanksAreRefused) {
  write();
  write_optimizer(folder.path(), ranks[0], 0, 2);
  testing::expect_error([&] { read_optimizer(folder.path()); }, {"holds the optimizer's state of", "ranks"});
}

TEST_F(OptimizerFiles, AGapIsNamed) {
  ranks[2][0] = {"w:moment:3", floats({4, 5, 6})};
  expect_refused({"optimizer-00003-of-00003.safetensors: w:moment:3 begins after 2 elements"});
}

TEST_F(OptimizerFiles, WhatIsThereTwiceIsNamed) {
  ranks[1][0] = {"w:moment:1", floats({2})};
  expect_refused({"optimizer-00002-of-00003.safetensors: w:moment:1 begins after 2 elements", "there twice"});
}

TEST_F(OptimizerFiles, TooFewOrTooManyElementsAreCounted) {
  ranks[2][0] = {"w:moment:2", floats({3, 4, 5})};
  expect_refused({"optimizer state w:moment has 5 elements in all files, of 6"});
  ranks[2][0] = {"w:moment:2", floats({3, 4, 5, 6, 7})};
  expect_refused({"optimizer state w:moment has 7 elements in all files, of 6"});
}

TEST_F(OptimizerFiles, OtherDtypesAreNamed) {
  ranks[2][0] = {"w:moment:2", floats({3, 4, 5, 6}).to(DType::bf16)};
  expect_refused({"w:moment:2 is bf16, other parts of that state are f32"});
}

TEST_F(OptimizerFiles, APartWithoutAShapeAndAShapeWithoutPartsAreNamed) {
  ranks[2].push_back({"v:moment:0", floats({1})});
  expect_refused({"v:moment has parts, and no file says its shape"});
  ranks[2].pop_back();
  ranks[0].push_back({"u:moment:shape", sizes({1})});
  expect_refused({"u:moment has a shape, and no elements"});
}

TEST_F(OptimizerFiles, PartsHaveOneSizeAndShapesAreSizes) {
  ranks[2][0] = {"w:moment:2", floats({3, 4, 5, 6}).reshape({2, 2})};
  expect_refused({"w:moment:2 has the shape (2, 2)"});
  ranks[2][0] = {"w:moment:2", floats({3, 4, 5, 6})};
  ranks[0][1] = {"w:moment:shape", floats({2, 3})};
  expect_refused({"w:moment:shape is no list of sizes"});
  ranks[0][1] = {"w:moment:shape", sizes({2, -3})};
  expect_refused({"w:moment"});
  ranks[0][1] = {"w:moment:shape", sizes({int64_t(1) << 40, int64_t(1) << 40})};
  expect_refused({"too many elements"});
}

}  // namespace
}  // namespace reprise::train
