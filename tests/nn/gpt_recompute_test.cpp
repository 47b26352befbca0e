// A Gpt whose blocks are recomputed trains to the same bits, in less memory, under the same names.
#include <cmath>
#include <map>
#include <string_view>

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/nn/two_updates.h"

namespace reprise::nn {
namespace {

using recompute::Plan;
using testing::expect_error;
using testing::NoLeaks;
using testing::random_tokens;
using testing::same_bits;

constexpr int64_t kLayers = 4;
constexpr const char* kStrategies[] = {"full",       "selective", "selective:save_attention",
                                       "every:2",    "keep:3",    "segments:3",
                                       "layers:0,3", "offload",   "offload:recompute_cheap"};

GptOptions tiny(double dropout = 0.1) {
  return {.vocab_size = 23, .context = 7, .layers = kLayers, .heads = 3, .width = 15, .dropout = dropout};
}

struct Tiny {
  Gpt model;
  Tensor tokens = random_tokens({2, 7}, 23, 1).to(testing::test_device());
  Tensor targets = random_tokens({2, 7}, 23, 2).to(testing::test_device());

  explicit Tiny(const GptOptions& options) : model((manual_seed(5), options), testing::test_device()) {}
  Tensor loss() { return cross_entropy(model(tokens), targets); }
};

// Losses and gradients of two updates from two micro-batches each, the weights after them and their averages;
// `prepare` is called before each.
TensorList two_updates(const std::function<void(Gpt&, int)>& prepare, double dropout,
                       DType dtype = DType::f32) {
  Tiny tiny_model(tiny(dropout));
  Gpt& model = tiny_model.model;
  model.to(dtype);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  return testing::two_updates(
      model, optimizer, 2, [&](uint64_t) { return tiny_model.loss(); },  // another dropout each time
      [&](int update) { prepare(model, update); });
}

void expect_same_by(const char* strategy, const TensorList& want, double dropout) {
  SCOPED_TRACE(strategy);
  NoLeaks guard;
  auto prepare = [&](Gpt& model, int) { model.h.set_recompute(parse_strategy(strategy)); };
  EXPECT_TRUE(same_bits(two_updates(prepare, dropout), want));
}

TEST(GptRecompute, TrainsToTheSameBitsByEveryStrategy) {
  TensorList want = two_updates([](Gpt&, int) {}, 0.1);
  for (const char* strategy : kStrategies) expect_same_by(strategy, want, 0.1);
}

TEST(GptRecompute, TrainsToTheSameBitsWithTheFusedResidualsOfNoDropout) {
  TensorList want = two_updates([](Gpt&, int) {}, 0);
  for (const char* strategy : {"full", "every:2"}) expect_same_by(strategy, want, 0);
}

TEST(GptRecompute, TrainsToTheSameBitsInBf16WithMasterWeights) {
  TensorList want = two_updates([](Gpt&, int) {}, 0.1, DType::bf16);
  for (const char* strategy : {"full", "selective", "offload"}) {
    SCOPED_TRACE(strategy);
    auto prepare = [&](Gpt& model, int) { model.h.set_recompute(parse_strategy(strategy)); };
    EXPECT_TRUE(same_bits(two_updates(prepare, 0.1, DType::bf16), want));
  }
}

// Training in f16 with dynamic loss scaling (Micikevicius et al. 2018): losses and scaled gradients of
// each try, and the weights at the end.
TensorList scaled_updates(const std::function<void(Gpt&)>& prepare) {
  Tiny tiny_model(tiny());
  Gpt& model = tiny_model.model;
  model.to(DType::f16);
  prepare(model);
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  double scale = 131072;  // beyond f16: the first gradients overflow
  TensorList bits;
  int updates = 0, skipped = 0;
  while (updates < 2 && skipped < 20) {
    Tensor loss = tiny_model.loss();
    (loss.to(DType::f32) * scale).backward();
    bool finite = true;
    for (const Tensor& parameter : model.parameters()) {
      bits.push_back(parameter.grad());
      for (double g : parameter.grad().to_vector<double>()) finite &= std::isfinite(g);
      parameter.set_grad((parameter.grad().to(DType::f32) * (1 / scale)).to(DType::f16));
    }
    if (finite) optimizer.step();
    (finite ? updates : skipped) += 1;
    if (!finite) scale /= 2;
    optimizer.zero_grad();
    bits.push_back(loss.detach());
  }
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(updates, 2);
  for (const auto& [name, tensor] : model.state_dict()) bits.push_back(tensor.detach());
  return bits;
}

TEST(GptRecompute, TrainsToTheSameBitsInF16WithLossScaling) {
  TensorList want = scaled_updates([](Gpt&) {});
  for (const char* strategy : {"full", "selective", "offload"}) {
    SCOPED_TRACE(strategy);
    EXPECT_TRUE(same_bits(
        scaled_updates([&](Gpt& model) { model.h.set_recompute(parse_strategy(strategy)); }), want));
  }
  Plan all = recompute::plan_every(kLayers, 1);
  EXPECT_TRUE(same_bits(
      scaled_updates([&](Gpt& model) { model.h.set_recompute(all, {.mode = CheckpointMode::reentrant}); }),
      want));
}

TEST(GptRecompute, TakesAPlanWithRegionsInsideRegionsInBothModes) {
  Plan plan = {{0, 3, true, {{0, 2, true}, {2, 3}}}, {3, 4, true}};
  TensorList want = two_updates([](Gpt&, int) {}, 0.1);
  for (CheckpointMode mode : testing::kModes)
    EXPECT_TRUE(same_bits(
        two_updates([&](Gpt& model, int) { model.h.set_recompute(plan, {.mode = mode}); }, 0.1), want));
}

TEST(GptRecompute, OffloadsTheInputsOfItsBlocks) {
  TensorList want = two_updates([](Gpt&, int) {}, 0.1);
  for (CheckpointMode mode : testing::kModes) {
    auto store = std::make_shared<Offload>(OffloadOptions{.min_bytes = 1});
    auto prepare = [&](Gpt& model, int) {
      model.h.set_recompute(recompute::plan_every(kLayers, 1), {.mode = mode, .offload = store});
    };
    EXPECT_TRUE(same_bits(two_updates(prepare, 0.1), want));
    EXPECT_GT(store->stats().read_bytes, 0u);
  }
}

TEST(GptRecompute, MayChangeBetweenUpdates) {
  TensorList want = two_updates([](Gpt&, int) {}, 0.1);
  auto change = [](Gpt& model, int step) {
    model.h.set_recompute(parse_strategy(step == 0 ? "full" : "layers:2"));
    EXPECT_EQ(to_string(model.h.strategy()), step == 0 ? "full" : "layers:2");
  };
  EXPECT_TRUE(same_bits(two_updates(change, 0.1), want));
}

// Counts what runs under a checkpoint.
struct Regions final : autograd::OpObserver {
  int count = 0;
  void op_ran(const char* name, const TensorList&, const TensorList&) override {
    count += std::string_view(name) == "checkpoint";
  }
};

TEST(GptRecompute, HasRegionsInTrainingWithRecordingOnly) {
  GptOptions options = tiny();
  options.recompute = parse_strategy("full");
  Tiny tiny_model(options);
  Regions regions;
  tiny_model.loss();
  EXPECT_EQ(regions.count, kLayers);
  {
    NoGrad guard;
    tiny_model.loss();
  }
  tiny_model.model.eval();
  tiny_model.loss();
  tiny_model.model.next_logits(tiny_model.tokens);
  EXPECT_EQ(regions.count, kLayers);
}

TEST(GptRecompute, HoldsLessUntilBackward) {
  auto held = [](const char* text) {
    Tiny tiny_model(tiny());
    tiny_model.model.h.set_recompute(parse_strategy(text));
    const Allocator& memory = allocator(testing::test_device());
    size_t before = memory.stats().allocated;
    Tensor features = tiny_model.model.features(tiny_model.tokens);
    return memory.stats().allocated - before;
  };
  size_t none = held("none"), every = held("every:2"), full = held("full");
  EXPECT_LT(every, none);
  EXPECT_LT(full, every);
  EXPECT_LT(3 * full, none);
}

// Which blocks are played again, and what each would hold for backward, of four equal ones.
std::map<std::string, size_t> replayed_bytes(const char* text) {
  Tiny tiny_model(tiny());
  tiny_model.model.h.set_recompute(parse_strategy(text));
  recompute::Accounting accounting;
  tiny_model.loss().backward();
  std::map<std::string, size_t> bytes;
  for (const recompute::RegionStats& region : accounting.regions()) {
    EXPECT_EQ(region.replays, 1) << text << " " << region.name;
    EXPECT_EQ(region.bytes_recomputed, region.bytes_saved) << text << " " << region.name;
    bytes[region.name] = region.bytes_saved;
  }
  return bytes;
}

TEST(GptRecompute, EveryAndKeepPlayOtherBlocksAgain) {
  const std::map<std::string, size_t> full = replayed_bytes("full");
  ASSERT_EQ(full.size(), size_t(kLayers));
  const std::pair<const char*, std::vector<std::string>> cases[] = {{"every:2", {"h.1", "h.3"}},
                                                                    {"every:3", {"h.2"}},
                                                                    {"every:4", {"h.3"}},
                                                                    {"every:5", {}},
                                                                    {"keep:2", {"h.0", "h.2"}},
                                                                    {"keep:3", {"h.0", "h.1", "h.3"}},
                                                                    {"keep:4", {"h.0", "h.1", "h.2"}},
                                                                    {"keep:1", {}},
                                                                    {"keep:5", {"h.0", "h.1", "h.2", "h.3"}}};
  for (const auto& [text, blocks] : cases) {
    std::map<std::string, size_t> want;
    for (const std::string& block : blocks) want[block] = full.at(block);
    EXPECT_EQ(replayed_bytes(text), want) << text;
  }
}

// Each block that is kept holds as much as any other, so that the two fall between `full` and `none` by as many blocks.
TEST(GptRecompute, KeepHoldsWhatEveryLetsGo) {
  const auto held = [](const char* text) {
    Tiny tiny_model(tiny());
    tiny_model.model.h.set_recompute(parse_strategy(text));
    const size_t before = allocator(testing::test_device()).stats().allocated;
    const Tensor features = tiny_model.model.features(tiny_model.tokens);
    return double(allocator(testing::test_device()).stats().allocated - before);
  };
  const double none = held("none"), block = (none - held("full")) / kLayers;
  for (auto [text, regions] :
       {std::pair{"every:4", 1}, std::pair{"every:2", 2}, std::pair{"keep:2", 2}, std::pair{"keep:4", 3}})
    EXPECT_NEAR(none - held(text), regions * block, 0.1 * block) << text;
}

TEST(GptRecompute, LeavesTheStateDictAlone) {
  Tiny plain(tiny());
  GptOptions options = tiny();
  options.recompute = parse_strategy("sqrt");
  Tiny other(options);
  NamedTensors want = plain.model.state_dict(), got = other.model.state_dict();
  EXPECT_TRUE(same_bits(got, want));
}

// A gradient in block 3 overflows: its norm scales up by 1e30 what its MLP scales down again.
std::string overflow_message(const char* strategy) {
  Tiny tiny_model(tiny(0));
  tiny_model.model.h.set_recompute(parse_strategy(strategy));
  auto& block = static_cast<TransformerBlock&>(tiny_model.model.h[3]);
  {
    NoGrad guard;
    block.norm2.weight.copy_(block.norm2.weight * 1e30);
    block.mlp.fc1.weight.copy_(block.mlp.fc1.weight * 1e-30);
  }
  AnomalyMode anomaly;
  try {
    (tiny_model.loss() * 1e20).backward();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(GptRecompute, NamesTheBlockWhereAGradientGoesBad) {
  std::string want = overflow_message("none");
  EXPECT_NE(want.find(" in h.3"), std::string::npos) << want;
  for (const char* text : kStrategies) EXPECT_EQ(overflow_message(text), want) << text;
}

TEST(GptRecompute, RefusesWhatItsBlocksCannotDo) {
  GptOptions options = tiny();
  options.recompute = parse_strategy("segments:6");
  expect_error([&] { Gpt model(options); }, {"6 segments of only 4 layers"});
  Gpt model(tiny());
  expect_error([&] { model.h.set_recompute(Plan{{0, 3, true}}); }, {"ends at layer 3 of a chain of 4"});
  expect_error([&] { model.h.set_recompute(parse_strategy("layers:4")); }, {"layer 4"});
  EXPECT_EQ(to_string(model.h.recompute_plan()), "0-3");
}

}  // namespace
}  // namespace reprise::nn
