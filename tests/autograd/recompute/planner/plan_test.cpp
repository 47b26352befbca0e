// Chains of layers run by plans: what a plan looks like, how often each layer runs, and that the bits stay.
#include "reprise/autograd/recompute/planner/plan.h"

#include <string_view>

#include "reprise/autograd/op_observer.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::recompute {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::many;
using testing::name_of;
using testing::NoLeaks;
using testing::same_bits;

TEST(Plan, ListsItsRegionsInBrackets) {
  EXPECT_EQ(to_string(plan_none(4)), "0-3");
  EXPECT_EQ(to_string(plan_every(9, 3)), "0-1 [2] 3-4 [5] 6-7 [8]");
  EXPECT_EQ(to_string(plan_every(3, 1)), "[0] [1] [2]");
  EXPECT_EQ(to_string(plan_every(2, 3)), "0-1");
  EXPECT_EQ(to_string(plan_keep(9, 3)), "[0] [1] 2 [3] [4] 5 [6] [7] 8");
  EXPECT_EQ(to_string(plan_keep(3, 1)), "0-2");
  EXPECT_EQ(to_string(plan_keep(2, 3)), "[0] [1]");
  EXPECT_EQ(to_string(plan_selected(6, {4, 1, 2})), "0 [1] [2] 3 [4] 5");
  EXPECT_EQ(to_string(Plan{{0, 4, true, {{0, 3, true}, {3, 4}}}, {4, 5}}), "[0-3: [0-2] 3] 4");
  EXPECT_EQ(plan_none(0), Plan());
}

TEST(Plan, KeepsWhatEveryRecomputes) {
  auto regions = [](const Plan& plan, int64_t n) {
    std::vector<bool> is_region(size_t(n), false);
    for (const Segment& s : plan)
      for (int64_t i = s.begin; i < s.end; ++i) is_region[size_t(i)] = s.checkpointed;
    return is_region;
  };
  for (int64_t n = 0; n <= 12; ++n)
    for (int64_t k = 1; k <= n + 1; ++k) {
      std::vector<bool> others = regions(plan_keep(n, k), n);
      others.flip();
      EXPECT_EQ(others, regions(plan_every(n, k), n)) << n << " " << k;
    }
}

TEST(Plan, CutsSegmentsOfNearlyEqualLength) {
  EXPECT_EQ(to_string(plan_segments(6, 3)), "[0-1] [2-3] 4-5");
  EXPECT_EQ(to_string(plan_segments(7, 3)), "[0-1] [2-3] 4-6");
  EXPECT_EQ(to_string(plan_segments(11, 4, LastSegment::checkpointed)), "[0-1] [2-4] [5-7] [8-10]");
  EXPECT_EQ(to_string(plan_segments(3, 1)), "0-2");
  for (int64_t n = 0; n <= 30; ++n)
    for (int64_t segments = 0; segments <= n; ++segments) check_plan(plan_segments(n, segments), n);
}

TEST(Plan, PicksTheSquareRootAsNumberOfSegments) {
  const std::pair<int64_t, size_t> cases[] = {{0, 0}, {1, 1}, {2, 2},  {4, 2},
                                              {5, 3}, {9, 3}, {10, 4}, {12, 4}};
  for (auto [n, segments] : cases) EXPECT_EQ(plan_segments(n, 0).size(), segments) << n;
}

TEST(Plan, RefusesWhatItCannotBeMadeFrom) {
  expect_error([] { plan_segments(3, 4); }, {"4 segments of only 3 layers"});
  expect_error([] { plan_segments(3, -1); }, {"-1 segments"});
  expect_error([] { plan_every(3, 0); }, {"every 0-th layer"});
  expect_error([] { plan_keep(3, 0); }, {"keep 0-th layer"});
  expect_error([] { plan_keep(-1, 1); }, {"-1 layers"});
  expect_error([] { plan_selected(3, {3}); }, {"layer 3 was selected, there are 3"});
  expect_error([] { plan_selected(3, {-1}); }, {"layer -1"});
  expect_error([] { plan_none(-1); }, {"-1 layers"});
  expect_error([] { plan_every(-1, 1); }, {"-1 layers"});
  expect_error([] { plan_segments(-1, 0); }, {"a chain of -1 layers"});
  expect_error([] { plan_selected(-1, {}); }, {"-1 layers"});
}

TEST(Plan, IsCheckedBeforeItRuns) {
  const std::pair<Plan, const char*> cases[] = {
      {{{0, 2}, {3, 4}}, "segment [3, 4) of a chain of 4 layers should begin at 2"},
      {{{0, 2}, {1, 4}}, "segment [1, 4) of a chain of 4 layers should begin at 2"},
      {{{1, 4}}, "should begin at 0"},
      {{{0, 3}}, "ends at layer 3 of a chain of 4 layers"},
      {{}, "ends at layer 0"},
      {{{0, 5}}, "goes beyond a chain of 4 layers"},
      {{{0, 4}, {4, 4}}, "segment [4, 4) of a chain of 4 layers is empty"},
      {{{0, 4, true, {{0, 3}}}}, "ends at layer 3 of segment [0, 4)"},
      {{{0, 4, true, {{0, 4, true, {{1, 4}}}}}}, "segment [1, 4) of segment [0, 4) should begin at 0"},
      {{{0, 4, false, {{0, 4}}}}, "has segments inside and is not checkpointed"}};
  int calls = 0;
  std::vector<LayerFunction> layers(4, [&](const Tensor& h) { return ++calls, h; });
  for (const auto& [plan, message] : cases)
    expect_error([&] { run_plan(plan, layers, leaf({2})); }, {message});
  EXPECT_EQ(calls, 0);
}

// A chain with a parameter each, dropout, and counters.
struct Chain {
  std::vector<int> calls;
  TensorList weights;
  std::vector<LayerFunction> layers;

  explicit Chain(size_t n) : calls(n) {
    for (size_t i = 0; i < n; ++i) {
      weights.push_back(leaf({6}, 10 + i));
      layers.push_back([this, i](const Tensor& h) {
        ++calls[i];
        return dropout(sin(square(h) * weights[i]), 0.2) + h;
      });
    }
  }

  /// The output and all gradients of a run from the same seed.
  TensorList run(const Plan& plan, const CheckpointOptions& options = {}) {
    manual_seed(3);
    Tensor x = leaf({6}, 2), y = run_plan(plan, layers, x, options);
    y.sum().backward();
    TensorList bits = {y.detach(), x.grad()};
    for (Tensor& w : weights) {
      bits.push_back(w.grad());
      w.set_grad({});
    }
    return bits;
  }
};

TEST(RunPlan, KeepsTheBitsWhateverThePlan) {
  constexpr int64_t n = 7;
  TensorList want = Chain(n).run(plan_none(n));
  const Plan plans[] = {plan_segments(n, 0),
                        plan_segments(n, 3, LastSegment::checkpointed),
                        plan_segments(n, 1, LastSegment::checkpointed),
                        plan_every(n, 1),
                        plan_every(n, 2),
                        plan_keep(n, 3),
                        plan_selected(n, {0, 5}),
                        {{0, 6, true, {{0, 2, true}, {2, 3}, {3, 6, true, {{3, 5, true}, {5, 6}}}}}, {6, 7}}};
  for (CheckpointMode mode : kModes)
    for (const Plan& plan : plans) {
      SCOPED_TRACE(std::string(name_of(mode)) + " " + to_string(plan));
      NoLeaks guard;
      EXPECT_TRUE(same_bits(Chain(n).run(plan, {.mode = mode}), want));
    }
}

TEST(RunPlan, RunsALayerOnceMoreForEachRegionAroundIt) {
  const std::pair<Plan, std::vector<int>> cases[] = {
      {plan_none(6), {1, 1, 1, 1, 1, 1}},
      {plan_every(6, 1), {2, 2, 2, 2, 2, 2}},
      {plan_every(6, 2), {1, 2, 1, 2, 1, 2}},
      {plan_keep(6, 3), {2, 2, 1, 2, 2, 1}},
      {plan_segments(6, 3), {2, 2, 2, 2, 1, 1}},
      {{{0, 4, true, {{0, 2, true}, {2, 4}}}, {4, 6}}, {3, 3, 2, 2, 1, 1}},
      {{{0, 5, true, {{0, 4, true, {{0, 2, true}, {2, 4}}}, {4, 5}}}, {5, 6}}, {4, 4, 3, 3, 2, 1}}};
  for (CheckpointMode mode : kModes)
    for (const auto& [plan, calls] : cases) {
      Chain chain(6);
      chain.run(plan, {.mode = mode});
      EXPECT_EQ(chain.calls, calls) << name_of(mode) << " " << to_string(plan);
    }
}

TEST(RunPlan, StopsAReplayBeforeAnInnerRegionWhoseValuesAreNotNeededYet) {
  Chain chain(4);
  chain.run({{0, 4, true, {{0, 2, true}, {2, 4, true}}}});
  EXPECT_EQ(chain.calls, (std::vector<int>{3, 3, 2, 2}));
}

TEST(RunPlan, KeepsItsLayersUntilBackwardIsDone) {
  auto token = std::make_shared<int>(0);
  Tensor x = leaf({4}), y;
  {
    std::vector<LayerFunction> layers(3, [token](const Tensor& h) { return sin(square(h)); });
    y = run_plan(plan_every(3, 1), layers, x).sum();
  }
  EXPECT_GT(token.use_count(), 1);
  y.backward();
  Tensor want = leaf({4});
  sin(square(sin(square(sin(square(want)))))).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  y = {};
  EXPECT_EQ(token.use_count(), 1);
}

TEST(RunPlan, MakesNoRegionsWithoutRecording) {
  struct Regions final : autograd::OpObserver {
    int count = 0;
    void op_ran(const char* name, const TensorList&, const TensorList&) override {
      count += std::string_view(name) == "checkpoint";
    }
  };
  Chain chain(4);
  Regions regions;
  run_plan(plan_every(4, 2), chain.layers, leaf({6}));
  EXPECT_EQ(regions.count, 2);
  NoGrad guard;
  run_plan(plan_every(4, 2), chain.layers, leaf({6}));
  EXPECT_EQ(regions.count, 2);
}

TEST(RunPlan, SharesAWeightAmongRegions) {
  for (CheckpointMode mode : kModes) {
    Tensor w = leaf({5}, 4);
    std::vector<LayerFunction> layers(6, [&](const Tensor& h) { return sin(h * w) + h; });
    auto gradients = [&](const Plan& plan) {
      Tensor x = leaf({5}, 5);
      w.set_grad({});
      (run_plan(plan, layers, x, {.mode = mode}) * w).sum().backward();
      return TensorList{x.grad(), w.grad()};
    };
    TensorList want = gradients(plan_none(6));
    for (const Plan& plan : {plan_segments(6, 3), plan_every(6, 1), plan_every(6, 2)})
      EXPECT_TRUE(same_bits(gradients(plan), want));
  }
}

// The gradients of thousands of layers run by this plan are those of a run without regions.
void expect_long_chain_keeps_its_bits(const Plan& plan) {
  for (CheckpointMode mode : kModes) {
    NoLeaks guard;
    Tensor w = leaf({3}, 4);
    std::vector<LayerFunction> layers(size_t(many()), [&](const Tensor& h) { return sin(h * w) + h; });
    auto gradients = [&](const Plan& by) {
      Tensor x = leaf({3}, 5);
      w.set_grad({});
      run_plan(by, layers, x, {.mode = mode}).sum().backward();
      return TensorList{x.grad(), w.grad()};
    };
    TensorList want = gradients(plan_none(many()));
    EXPECT_TRUE(same_bits(gradients(plan), want));
  }
}

TEST(RunPlan, HoldsThousandsOfRegions) { expect_long_chain_keeps_its_bits(plan_every(many(), 1)); }
TEST(RunPlan, HoldsThousandsOfLayersInOneRegion) {
  expect_long_chain_keeps_its_bits(plan_segments(many(), 1, LastSegment::checkpointed));
}

TEST(CheckpointSequential, RunsAllSegmentsButTheLastTwice) {
  for (CheckpointMode mode : kModes) {
    TensorList want = Chain(5).run(plan_none(5));
    Chain chain(5);
    manual_seed(3);
    Tensor x = leaf({6}, 2);
    Tensor y = checkpoint_sequential(chain.layers, 2, x, {.mode = mode});
    EXPECT_EQ(chain.calls, std::vector<int>(5, 1));
    y.sum().backward();
    EXPECT_EQ(chain.calls, (std::vector<int>{2, 2, 1, 1, 1}));
    EXPECT_TRUE(same_bits(y.detach(), want[0]));
    EXPECT_TRUE(same_bits(x.grad(), want[1]));
    for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(same_bits(chain.weights[i].grad(), want[i + 2])) << i;
  }
}

TEST(CheckpointSequential, RunsTheLastSegmentTwiceWhenAsked) {
  Chain chain(4);
  Tensor y = checkpoint_sequential(chain.layers, 2, leaf({6}), {}, LastSegment::checkpointed);
  y.sum().backward();
  EXPECT_EQ(chain.calls, std::vector<int>(4, 2));
}

TEST(CheckpointSequential, RefusesMoreSegmentsThanLayersAndTakesNoLayers) {
  Chain chain(2);
  expect_error([&] { checkpoint_sequential(chain.layers, 3, leaf({6})); }, {"3 segments of only 2 layers"});
  Tensor x = leaf({6});
  EXPECT_TRUE(same_bits(checkpoint_sequential({}, 0, x).detach(), x.detach()));
}

// Two layers that leave what they are given behind, and two that take it up again; how many tensors each saw.
struct UShape {
  std::vector<size_t> given;
  Tensor weight = leaf({6}, 4);
  std::vector<ListLayer> layers;

  UShape() {
    auto inner = [this](const Tensor& h) { return dropout(sin(square(h) * weight), 0.2) + h; };
    for (int i = 0; i < 2; ++i)
      layers.push_back({1, 2, [this, inner](const TensorList& h) {
                          given.push_back(h.size());
                          return TensorList{h[0], inner(h[0])};
                        }});
    for (int i = 0; i < 2; ++i)
      layers.push_back({2, 1, [this, inner](const TensorList& h) {
                          given.push_back(h.size());
                          return TensorList{inner(h[0] * h[1])};
                        }});
  }
  TensorList run(const Plan& plan, const CheckpointOptions& options = {}) {
    manual_seed(3);
    Tensor x = leaf({6}, 2);
    TensorList y = run_plan(plan, layers, TensorList{leaf({6}, 7), x}, options);
    EXPECT_EQ(y.size(), 2u);
    (y[0] * y[1]).sum().backward();
    TensorList bits = {y[0].detach(), y[1].detach(), x.grad(), weight.grad()};
    weight.set_grad({});
    return bits;
  }
};

TEST(ListPlan, KeepsTheBitsWhateverItsRegionsSpan) {
  UShape plain;
  TensorList want = plain.run(plan_none(4));
  for (const Plan& plan : {plan_every(4, 1), plan_segments(4, 2), Plan{{0, 4, true}},
                           Plan{{0, 1}, {1, 4, true, {{1, 3, true}, {3, 4}}}}}) {
    SCOPED_TRACE(to_string(plan));
    NoLeaks guard;
    UShape shape;
    EXPECT_TRUE(same_bits(shape.run(plan), want));
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(shape.given[i], i < 2 ? 1u : 2u) << i;
  }
}

TEST(ListPlan, ALayerGivesWhatItSays) {
  std::vector<ListLayer> layers{{1, 2, [](const TensorList& h) { return TensorList{h[0]}; }}};
  for (const bool is_region : {false, true})
    expect_error(
        [&] {
          run_plan(Plan{{0, 1, is_region}}, layers, TensorList{leaf({6})});
        },
        {"recompute: layers gave 1 tensors, and say 2"});
}

// What a checkpoint is called with, by number of tensors.
struct RegionInputs final : autograd::OpObserver {
  std::vector<size_t> counts;
  void op_ran(const char* name, const TensorList& inputs, const TensorList&) override {
    if (std::string_view(name) == "checkpoint") counts.push_back(inputs.size());
  }
};

TEST(ListPlan, GivesARegionWhatItsLayersTakeAndNoMore) {
  const std::pair<Plan, std::vector<size_t>> cases[] = {{plan_every(4, 1), {1, 1, 2, 2}},
                                                        {{{0, 2, true}, {2, 4, true}}, {1, 3}},
                                                        {{{0, 1}, {1, 3, true}, {3, 4}}, {1}}};
  for (const auto& [plan, counts] : cases) {
    RegionInputs regions;
    UShape().run(plan);
    EXPECT_EQ(regions.counts, counts) << to_string(plan);
  }
  UShape shape;
  expect_error(
      [&] {
        run_plan(Plan{{0, 4}}, shape.layers, TensorList{});
      },
      {"take 1 tensors from a list of 0"});
}

}  // namespace
}  // namespace reprise::recompute
