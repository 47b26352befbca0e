// A UNet whose stages are recomputed trains to the same bits, statistics too; its skips stay and the rest goes.
// slow on the device cuda
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/nn/models/unet.h"

#include <string_view>

#include "reprise/autograd/op_observer.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/two_updates.h"

namespace reprise::nn {
namespace {

using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

UNetOptions tiny(UNetUp up) { return {.channels = 2, .classes = 2, .features = 4, .depth = 2, .up = up}; }

Tensor loss_of(UNet& model, uint64_t seed) { return mean(square(model(numbers({2, 2, 9, 7}, seed)) - 1.0)); }

TensorList two_updates(UNetUp up, const std::function<void(UNet&)>& prepare) {
  manual_seed(5);
  UNet model(tiny(up), test_device());
  prepare(model);
  optim::Sgd optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  return testing::two_updates(model, optimizer, 1, [&](uint64_t step) { return loss_of(model, step); });
}

TEST(UNetRecompute, TrainsToTheSameBitsByEveryStrategy) {
  for (UNetUp up : {UNetUp::bilinear, UNetUp::transposed}) {
    TensorList want = two_updates(up, [](UNet&) {});
    for (const char* strategy : {"full", "selective", "selective:save_matmuls", "every:2", "segments:2",
                                 "sqrt", "layers:0,3", "offload", "offload:recompute_cheap"}) {
      SCOPED_TRACE(strategy);
      NoLeaks guard;
      EXPECT_TRUE(same_bits(
          two_updates(up, [&](UNet& model) { model.set_recompute(parse_strategy(strategy)); }), want));
    }
  }
}

// A region of several stages, and regions inside of it.
TEST(UNetRecompute, TrainsToTheSameBitsByPlansAcrossTheBottom) {
  TensorList want = two_updates(UNetUp::bilinear, [](UNet&) {});
  for (const recompute::Plan& plan :
       {recompute::Plan{{0, 5, true}},
        recompute::Plan{{0, 1}, {1, 4, true, {{1, 3, true}, {3, 4}}}, {4, 5}}}) {
    SCOPED_TRACE(to_string(plan));
    NoLeaks guard;
    EXPECT_TRUE(
        same_bits(two_updates(UNetUp::bilinear, [&](UNet& model) { model.set_recompute(plan); }), want));
  }
}

TEST(UNetRecompute, ReplaysEachStageOnce) {
  UNet model(tiny(UNetUp::bilinear), test_device());
  model.set_recompute(parse_strategy("full"));
  recompute::Accounting accounting;
  loss_of(model, 1).backward();
  std::vector<std::string> names;
  for (const recompute::RegionStats& region : accounting.regions()) {
    names.push_back(region.name);
    EXPECT_EQ(region.replays, 1) << region.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"inc", "down1", "down2", "up1", "up2"}));
}

TEST(UNetRecompute, KeepsWhatAPolicySays) {
  UNet model(tiny(UNetUp::bilinear), test_device());
  for (const char* strategy : {"full", "selective:save_matmuls"}) {
    model.set_recompute(parse_strategy(strategy));
    recompute::Accounting accounting;
    loss_of(model, 1).backward();
    for (const recompute::RegionStats& region : accounting.regions())
      EXPECT_EQ(region.bytes_kept > 0, std::string_view(strategy) != "full")
          << strategy << ' ' << region.name;
  }
}

// Counts what runs under a checkpoint.
struct Regions final : autograd::OpObserver {
  int count = 0;
  void op_ran(const char* name, const TensorList&, const TensorList&) override {
    count += std::string_view(name) == "checkpoint";
  }
};

TEST(UNetRecompute, HasRegionsInTrainingWithRecordingOnly) {
  UNet model(tiny(UNetUp::bilinear), test_device());
  model.set_recompute(parse_strategy("full"));
  Regions regions;
  loss_of(model, 1);
  EXPECT_EQ(regions.count, model.size());
  {
    NoGrad guard;
    loss_of(model, 1);
  }
  model.eval();
  loss_of(model, 1);
  EXPECT_EQ(regions.count, model.size());
}

// Bytes of activations that are there between forward and backward.
int64_t held(const char* strategy) {
  UNet model(tiny(UNetUp::bilinear), test_device());
  model.set_recompute(parse_strategy(strategy));
  Tensor images = numbers({2, 2, 32, 32});
  auto activations = [] {
    return int64_t(allocator(test_device()).stats().by_category[size_t(MemoryCategory::activations)]);
  };
  const int64_t before = activations();
  Tensor logits = model(images);
  const int64_t after = activations();
  logits.sum().backward();
  return after - before;
}

// In pixels: inc, down1 and down2 give 4, 8 / 4 and 8 / 16 numbers (bilinear's bottom has half), up1 and up2 give
// 4 / 4 and 4, the logits 2.
TEST(UNetRecompute, HoldsTheResultsOfStagesAndNothingInside) {
  const double pixels = 2 * 32 * 32, numbers_a_pixel = 4 + 2 + 0.5 + 1 + 4 + 2;
  const double bytes = pixels * numbers_a_pixel * sizeof(float);
  EXPECT_NEAR(double(held("full")), bytes, 0.05 * bytes);
  EXPECT_GT(double(held("none")), 3 * bytes);
}

TEST(UNetRecompute, OutlivesItsModel) {
  auto model = std::make_unique<UNet>(tiny(UNetUp::transposed), test_device());
  model->set_recompute(parse_strategy("full"));
  TensorList parameters = model->parameters();
  Tensor loss = loss_of(*model, 1);
  model.reset();
  loss.backward();
  for (const Tensor& parameter : parameters) EXPECT_TRUE(parameter.grad().defined());
}

}  // namespace
}  // namespace reprise::nn
