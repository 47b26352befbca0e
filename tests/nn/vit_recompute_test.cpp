// A Vit whose blocks are recomputed trains to the same bits: dropped paths, dropout, the stem's statistics and
// averages too; in evaluation there are no regions.
// slow on the device cuda
#include <string_view>

#include "reprise/autograd/op_observer.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

constexpr int64_t kLayers = 4;
constexpr const char* kStrategies[] = {
    "full",       "selective", "selective:save_attention", "every:2", "segments:3",
    "layers:0,3", "offload",   "offload:recompute_cheap"};

VitOptions tiny(const char* strategy) {
  return {.image = 8,
          .patch = 4,
          .classes = 5,
          .width = 12,
          .layers = kLayers,
          .heads = 3,
          .stem = Stem::conv,
          .registers = 1,
          .pool = Pool::avg,
          .layer_scale = 0.1,
          .dropout = 0.1,
          .drop_path = 0.3,
          .recompute = parse_strategy(strategy)};
}

// ViT-5's parts: dropped paths and LayerScale within the products, RMSNorm of q and k, rotary positions.
VitOptions tiny_vit5(const char* strategy) {
  return {.image = 8,
          .patch = 4,
          .classes = 5,
          .width = 12,
          .layers = kLayers,
          .heads = 3,
          .registers = 2,
          .no_embed_class = true,
          .layer_scale = 0.1,
          .qkv_bias = false,
          .drop_path = 0.5,
          .norm = NormKind::rms,
          .qk_norm = true,
          .rope = true,
          .recompute = parse_strategy(strategy)};
}

// Losses, gradients, weights, statistics and averages of two updates from two micro-batches each.
TensorList two_updates(const VitOptions& options) {
  manual_seed(5);
  Vit model(options, test_device());
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  optim::Ema ema(model, 0.9);
  TensorList bits;
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint64_t micro = 0; micro < 2; ++micro) {
      Tensor targets = Tensor::from<int64_t>({4, 0, 2}, {3}).to(test_device());
      Tensor loss = cross_entropy(model(numbers({3, 3, 8, 8}, 2 * step + micro)), targets);
      loss.backward();
      bits.push_back(loss.detach());
    }
    for (const Tensor& parameter : model.parameters()) bits.push_back(parameter.grad());
    optimizer.step();
    optimizer.zero_grad();
    ema.update();
  }
  for (const auto& [name, tensor] : model.state_dict()) bits.push_back(tensor.detach());
  for (const auto& [name, tensor] : ema.state_dict()) bits.push_back(tensor);
  return bits;
}

TEST(VitRecompute, TrainsToTheSameBitsByEveryStrategy) {
  for (VitOptions (*options)(const char*) : {tiny, tiny_vit5}) {
    TensorList want = two_updates(options("none"));
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      NoLeaks guard;
      TensorList got = two_updates(options(strategy));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
    }
  }
}

// Counts what runs under a checkpoint.
struct Regions final : autograd::OpObserver {
  int count = 0;
  void op_ran(const char* name, const TensorList&, const TensorList&) override {
    count += std::string_view(name) == "checkpoint";
  }
};

TEST(VitRecompute, HasRegionsInTrainingWithRecordingOnly) {
  Vit model(tiny("full"), test_device());
  Tensor images = numbers({3, 3, 8, 8});
  Regions regions;
  model(images);
  EXPECT_EQ(regions.count, kLayers);
  {
    NoGrad guard;
    model(images);
  }
  model.eval();
  model(images);
  EXPECT_EQ(regions.count, kLayers);
}

TEST(VitRecompute, PlansItsStepForABudget) {
  VitOptions options = tiny("none");
  options.drop_path = 0;
  Vit model(options, test_device());
  Tensor images = numbers({3, 3, 8, 8});
  NamedTensors before;
  for (const auto& [name, tensor] : model.state_dict()) before.emplace_back(name, tensor.detach().clone());
  recompute::Chain chain = model.blocks.profile(images, {.repeats = 1});
  EXPECT_EQ(chain.stages.size(), size_t(kLayers));
  NamedTensors after = model.state_dict();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(after[i].second.detach(), before[i].second))
        << before[i].first << ": statistics too";
}

}  // namespace
}  // namespace reprise::nn
