// A Vit whose blocks are recomputed trains to the same bits: dropped paths, dropout, the stem's statistics and
// averages too; in evaluation there are no regions.
// slow on the device cuda
#include <string_view>

#include "reprise/autograd/op_observer.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/two_updates.h"

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
  return testing::two_updates(model, optimizer, 2, [&](uint64_t micro) {
    Tensor targets = Tensor::from<int64_t>({4, 0, 2}, {3}).to(test_device());
    return cross_entropy(model(numbers({3, 3, 8, 8}, micro)), targets);
  });
}

TEST(VitRecompute, TrainsToTheSameBitsByEveryStrategy) {
  for (VitOptions (*options)(const char*) : {tiny, tiny_vit5}) {
    TensorList want = two_updates(options("none"));
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      NoLeaks guard;
      TensorList got = two_updates(options(strategy));
      EXPECT_TRUE(same_bits(got, want));
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
