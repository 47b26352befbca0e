// What a step sends and holds: the buckets of DataParallel, the models' own parameters, ZeRO's table.
#include "reprise/apps/scale/traffic.h"

#include <gtest/gtest.h>

#include "reprise/nn/models/gpt.h"
#include "reprise/tests/apps/scale/scenario.h"
#include "reprise/tests/support/errors.h"

namespace reprise::apps::scale {
namespace {

using namespace testing;

nn::Gpt made(const ModelShape& s) {
  return nn::Gpt({.vocab_size = s.vocab_size,
                  .context = s.context,
                  .layers = s.layers,
                  .heads = s.heads,
                  .width = s.width});
}

TEST(ScaleTraffic, ShapesHaveTheParametersOfTheModel) {
  for (const char* name : {"gpt_3x64", "gpt_2x256"}) {
    const ModelShape shape = model_shape(name);
    nn::Gpt gpt = made(shape);
    std::vector<int64_t> expected, got;
    for (const Tensor& parameter : gpt.parameters()) expected.push_back(parameter.numel());
    for (const Layer& layer : assumed_profile(shape, {1, 8}, device_speed("h100"), false, false).layers)
      got.insert(got.end(), layer.parameters.begin(), layer.parameters.end());
    EXPECT_EQ(got, expected) << name;
  }
}

// Sizes that their authors have published.
TEST(ScaleTraffic, PresetsHaveThePublishedSizes) {
  const std::pair<const char*, int64_t> published[] = {
      {"gpt2_124m", 124'439'808},    {"gpt2_355m", 354'823'168},   {"gpt2_774m", 774'030'080},
      {"gpt2_1558m", 1'557'611'200}, {"llama3_8b", 8'030'261'248}, {"qwen2.5_0.5b", 494'032'768}};
  for (auto [name, numel] : published)
    EXPECT_EQ(assumed_profile(model_shape(name), {1, 8}, device_speed("h100"), true, false).numel(), numel)
        << name;
}

// All of forward and twice that for backward; biases and norms, which Gpt counts as matrices, are 0.2 % of these.
TEST(ScaleTraffic, AssumedSecondsAreThoseOfTheModelsOperations) {
  const ModelShape shape = model_shape("gpt_4x512");
  DeviceSpeed device = device_speed("h100");
  device.flops_32 = 1e12;
  double seconds = 0;
  for (const Layer& layer : assumed_profile(shape, {3, shape.context}, device, false, false).layers)
    seconds += layer.forward_seconds + layer.backward_seconds;
  const double expected = made(shape).flops_per_token() * 3 * double(shape.context) / 1e12;
  EXPECT_NEAR(seconds / expected, 1, 0.004);
}

TEST(ScaleTraffic, BucketsAreThoseOfTheModel) {
  const ModelShape shape = model_shape("gpt_3x64");
  const distributed::BucketOptions options{.bytes = 100'000, .first_bytes = 30'000};
  nn::Gpt gpt = made(shape);
  const std::vector<distributed::Bucket> expected = distributed::plan_buckets(gpt.parameters(), options);
  const StepProfile profile = assumed_profile(shape, {1, 8}, device_speed("h100"), false, false);
  const std::vector<SentBucket> got = sent_buckets(profile.layers, options);
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_GT(got.size(), 3u);
  const nn::NamedTensors named = gpt.named_parameters();
  for (size_t b = 0; b < got.size(); ++b) {
    EXPECT_EQ(got[b].numel, expected[b].numel);
    // The last parameter of a bucket is of the lowest layer: h.0 is layer 1.
    const std::string& name = named[expected[b].parameters.back()].first;
    const size_t layer = name.starts_with("h.")     ? size_t(name[2] - '0') + 1
                         : name.starts_with("ln_f") ? 4
                                                    : 0;
    EXPECT_EQ(got[b].lowest_layer, layer) << name;
  }
}

TEST(ScaleTraffic, ARanksShareIsThatOfTheTree) {
  TrainingPlan plan;
  EXPECT_EQ(rank_share(plan, 5).micro_batches, 1);
  plan.micro_batches = 12;
  EXPECT_EQ(rank_share(plan, 3).micro_batches, 4);
  EXPECT_EQ(rank_share(plan, 3).nodes, 1);
  EXPECT_EQ(rank_share(plan, 4).nodes, 2);  // of 3, 4 and 5: 3 alone, and 4 with 5
  expect_error([&] { rank_share(plan, 5); }, {"--accumulate 12", "--ranks 5"});
}

// Bytes per rank of N = 60 parameters on 4 ranks: the table of Rajbhandari et al. 2020.
TEST(ScaleTraffic, MemoryIsThatOfZerosTable) {
  const StepProfile profile = three_layers();
  TrainingPlan f32 = plan_of_stage(0), pure = f32;
  pure.weight_bytes = pure.compute_bytes = 2;
  pure.optimizer_bytes = 12;
  auto state = [&](TrainingPlan plan, int zero) {
    plan.zero = zero;
    const RankMemory memory = rank_memory(profile, plan, 4);
    return memory.weights + memory.gradients + memory.optimizer;
  };
  const double n = 60;
  EXPECT_DOUBLE_EQ(state(f32, 0), 16 * n);
  EXPECT_DOUBLE_EQ(state(f32, 1), 8 * n + 8 * n / 4);
  EXPECT_DOUBLE_EQ(state(f32, 2), 4 * n + 12 * n / 4);
  EXPECT_DOUBLE_EQ(state(f32, 3), 16 * n / 4 + 2 * 30 * 4);  // and two of the largest layer
  EXPECT_DOUBLE_EQ(state(pure, 0), 18 * n);
  EXPECT_DOUBLE_EQ(state(pure, 1), 6 * n + 12 * n / 4);
  EXPECT_DOUBLE_EQ(state(pure, 2), 2 * n + 16 * n / 4);
  EXPECT_DOUBLE_EQ(state(pure, 3), 18 * n / 4 + 2 * 30 * 2);
}

TEST(ScaleTraffic, MemoryOfActivationsShadowsAndPartialSums) {
  const StepProfile profile = three_layers();
  TrainingPlan plan = plan_of_stage(2);
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 4).activations, 6000 + 300);
  plan.recomputes = true;  // of the second layer, whose 2,000 bytes are there while it is replayed: as much
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 4).activations, 6000 + 300);
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 4).buckets, 2 * 120);
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 1).buckets, 0);
  plan.compute_bytes = 2;
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 4).weights, 6 * 60);
  plan.micro_batches = 16;  // four per rank: gradients stay whole, and there are two partial sums beside
  EXPECT_DOUBLE_EQ(rank_memory(profile, plan, 4).gradients, 3 * 4 * 60);
}

TEST(ScaleTraffic, RefusesModelsThatThereAreNot) {
  for (const char* name : {"gpt_", "gpt_4x", "gpt_4x100", "gpt_0x64", "gpt_4x128x2", "vit"})
    expect_error([=] { model_shape(name); }, {'"' + std::string(name) + '"', "gpt2_124m", "gpt_LxW"});
}

}  // namespace
}  // namespace reprise::apps::scale
