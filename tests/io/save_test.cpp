// Modules and states in one file, and files that do not fit.
#include "reprise/io/save.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/random.h"
#include "reprise/io/arrays/npy.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::TempFolder;

// A model and its optimizer, a step after their beginning.
struct Trained {
  struct Seeded {
    explicit Seeded(uint64_t seed) { manual_seed(seed); }
  } seeded;
  nn::Linear model{3, 2};
  optim::AdamW optimizer{model.parameters(), {.lr = 0.1}};
  explicit Trained(uint64_t seed) : seeded(seed) { step(); }
  void step() {
    square(model.forward(Tensor::from<float>({1, 2, 3}, {1, 3}))).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
};

TEST(Save, AModelAndItsOptimizerGoOnFromTheirFiles) {
  TempFolder folder;
  Trained want(1), got(2);
  save(folder / "model.safetensors", want.model);
  save(folder / "optimizer.safetensors", want.optimizer, {{"step", "1"}});
  EXPECT_FALSE(same_bits(got.model.weight.detach(), want.model.weight.detach()));
  load(folder / "model.safetensors", got.model);
  load(folder / "optimizer.safetensors", got.optimizer);
  EXPECT_EQ(io::SafetensorsFile(folder / "optimizer.safetensors").metadata().at("step"), "1");
  want.step(), got.step();
  EXPECT_TRUE(same_bits(got.model.weight.detach(), want.model.weight.detach()));
  EXPECT_TRUE(same_bits(got.model.bias.detach(), want.model.bias.detach()));
}

TEST(Save, TakesTensorsByName) {
  TempFolder folder;
  const std::string path = folder / "map.safetensors";
  const std::map<std::string, Tensor> state{{"w", Tensor::from<float>({1, 2}, {2})},
                                            {"b", Tensor::from<int64_t>({7}, {1})}};
  save(path, state, {{"step", "3"}});
  const auto read = load(path);
  ASSERT_EQ(read.size(), 2u);
  for (const auto& [name, tensor] : read) EXPECT_TRUE(same_bits(tensor, state.at(name))) << name;
  EXPECT_EQ(io::SafetensorsFile(path).metadata().at("step"), "3");
  save(path, {{"x", Tensor::from<float>({5}, {1})}});  // a list in braces goes on to be one
  EXPECT_EQ(load(path).front().first, "x");
}

TEST(Save, WhatDoesNotFitIsAnErrorWithThePathAndChangesNothing) {
  TempFolder folder;
  Trained trained(1);
  const Tensor before = trained.model.weight.detach().clone();
  const std::string other = folder / "other.safetensors";
  save(other, nn::NamedTensors{{"weight", Tensor::zeros({2, 4})}, {"more", Tensor::zeros({1})}});
  expect_error([&] { load(other, trained.model); }, {"load: " + other, "weight", "bias", "more"});
  expect_error([&] { load(other, trained.optimizer); }, {"load: " + other, "updates"});
  expect_error([&] { load(folder / "none.safetensors", trained.model); }, "none.safetensors");
  expect_error([&] { save(folder / "x", nn::NamedTensors{{"w", Tensor()}}); }, "the tensor w is undefined");
  expect_error(
      [&] {
        save(folder / "x", nn::NamedTensors{{"w", before}, {"w", before}});
      },
      "two tensors are called");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  EXPECT_TRUE(same_bits(trained.model.weight.detach(), before));
}

TEST(Save, WritesNothingWithinANoCompute) {
  TempFolder folder;
  const NoCompute no_compute;
  nn::Linear model(3, 2);
  expect_error([&] { save(folder / "model.safetensors", model); },
               "within a NoCompute tensors have no values to write");
  expect_error([&] { io::write_npy(folder / "x.npy", model.weight); },
               "x.npy: within a NoCompute tensors have no values to write");
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.npy"));
}

}  // namespace
}  // namespace reprise
