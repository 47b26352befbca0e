// Strategies: reading them, writing them, and the plans they stand for.
#include "reprise/autograd/recompute/planner/strategy.h"

#include "reprise/tests/support/compare.h"

namespace reprise::recompute {
namespace {

using testing::expect_error;

TEST(Strategy, StandsForAPlan) {
  const std::pair<const char*, const char*> cases[] = {
      {"none", "0-9"},
      {"full", "[0] [1] [2] [3] [4] [5] [6] [7] [8] [9]"},
      {"every:3", "0-1 [2] 3-4 [5] 6-7 [8] 9"},
      {"keep:3", "[0] [1] 2 [3] [4] 5 [6] [7] 8 [9]"},
      {"keep:1", "0-9"},
      {"segments:2", "[0-4] 5-9"},
      {"segments:1", "0-9"},
      {"sqrt", "[0-1] [2-4] [5-6] 7-9"},
      {"layers:2,5,8", "0-1 [2] 3-4 [5] 6-7 [8] 9"},
      {"layers:0", "[0] 1-9"},
      {"plan:[0-3: [0-2] 3] 4-8 [9]", "[0-3: [0-2] 3] 4-8 [9]"}};
  for (auto [text, plan] : cases) EXPECT_EQ(to_string(plan_of(parse_strategy(text), 10)), plan) << text;
}

TEST(Strategy, SelectsByThePolicyOfItsName) {
  using autograd::OpCost;
  auto longer_than_wide = [](const autograd::OpShapes&) { return OpCost::Sums{.length = 9, .channels = 8}; };
  const PolicyOp ops[] = {{.name = "linear", .cost = OpCost::product()},
                          {.name = "attention", .cost = {OpCost::Kind::attention, longer_than_wide}},
                          {.name = "embedding", .cost = OpCost::moves()},
                          {.name = "layer_norm", .cost = OpCost::pointwise()}};
  auto saves = [](const char* text, const PolicyOp& op) {
    CheckpointOptions options = options_of(parse_strategy(text));
    return options.policy && options.policy(op) == Decision::save;
  };
  EXPECT_EQ(to_string(plan_of(parse_strategy("selective"), 3)), "[0] [1] [2]");
  const std::pair<const char*, std::vector<bool>> cases[] = {
      {"full", {false, false, false, false}},
      {"offload", {false, false, false, false}},
      {"offload:save_matmuls", {true, true, false, false}},
      {"selective", {true, true, true, false}},
      {"selective:recompute_cheap", {true, true, true, false}},
      {"selective:save_matmuls", {true, true, false, false}},
      {"selective:save_attention", {false, true, false, false}}};
  for (const auto& [text, want] : cases) {
    std::vector<bool> got;
    for (const PolicyOp& op : ops) got.push_back(saves(text, op));
    EXPECT_EQ(got, want) << text;
  }
}

TEST(Strategy, OffloadsTheInputsOfEachLayer) {
  Strategy strategy = parse_strategy("offload");
  EXPECT_EQ(to_string(plan_of(strategy, 3)), "[0] [1] [2]");
  EXPECT_TRUE(options_of(strategy).offload);
  EXPECT_NE(options_of(strategy).offload, options_of(strategy).offload)
      << "stores are not shared among models";
  EXPECT_FALSE(options_of(parse_strategy("full")).offload);
  EXPECT_FALSE(options_of(strategy).policy);
  EXPECT_TRUE(options_of(parse_strategy("offload:recompute_cheap")).offload);
}

TEST(Strategy, IsWrittenAsItIsRead) {
  for (const char* text : {"none",         "full",
                           "selective",    "selective:save_matmuls",
                           "every:3",      "keep:3",
                           "segments:2",   "sqrt",
                           "layers:2,5,8", "layers:0",
                           "plan:0-8",     "plan:[0-2] 3 [4-6: [4-5: [4] 5] 6]",
                           "offload",      "offload:recompute_cheap",
                           "auto:2GiB",    "auto:1363149",
                           "auto:12KiB",   "auto:50%",
                           "auto:0%",      "auto:12.5%"})
    EXPECT_EQ(to_string(parse_strategy(text)), text);
  EXPECT_EQ(to_string(parse_strategy("segments:0")), "sqrt");
  EXPECT_EQ(to_string(parse_strategy("auto:1024MiB")), "auto:1GiB");
  EXPECT_EQ(to_string(Strategy()), "none");
}

TEST(Strategy, RefusesWhatItCannotRead) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"foo",
       {"recompute: unknown strategy 'foo'; use none, full, selective:save_attention, every:3, keep:3"}},
      {"", {"unknown strategy ''"}},
      {"Full", {"unknown strategy 'Full'"}},
      {"foo:3", {"unknown strategy 'foo:3'"}},
      {"every", {"'every' needs a value, such as 'every:3'"}},
      {"full:2", {"'full' takes no value", "'full:2'"}},
      {"selective:", {"'selective:' names no policy"}},
      {"offload:", {"'offload:' names no policy"}},
      {"selective:foo", {"unknown policy 'foo'; use recompute_cheap, save_matmuls, save_attention"}},
      {"every:", {"'' in 'every:' is not a whole number"}},
      {"every:x", {"'x' in 'every:x' is not a whole number"}},
      {"every:2x", {"'2x'"}},
      {"every:0", {"'every:0'", "at least 1"}},
      {"keep", {"'keep' needs a value, such as 'keep:3'"}},
      {"keep:0", {"'keep:0'", "keep is at least 1"}},
      {"keep:x", {"'x' in 'keep:x' is not a whole number"}},
      {"keep:-1", {"'-1' in 'keep:-1'"}},
      {"auto", {"'auto' needs a value, such as 'auto:2GiB'"}},
      {"auto:", {"'' in 'auto:'", "512MiB", "50%"}},
      {"auto:lots", {"'lots' in 'auto:lots' is neither a number of bytes such as 512MiB nor a percentage"}},
      {"auto:120%", {"'120%' in 'auto:120%' is not from 0% to 100%"}},
      {"auto:nan%", {"'nan%'"}},
      {"plan", {"'plan' needs a value, such as 'plan:[0-2] 3-4 [5]'"}},
      {"plan:", {"'' is no plan such as '[0-2] 3 [4-6: [4-5] 6]', from '' on"}},
      {"plan:[0-2", {"'[0-2' is no plan", "from '' on"}},
      {"plan:[0] x", {"from 'x' on"}},
      {"plan:0  1", {"from ' 1' on"}},
      {"plan:0-1: 0", {"from ': 0' on"}},
      {"plan:0]", {"from ']' on"}},
      {"plan:0-99999999999", {"from '99999999999' on"}},
      {"plan:99999999999999999999", {"from '99999999999999999999' on"}},
      {"segments:-1", {"'-1' in 'segments:-1'"}},
      {"segments:99999999999999999999", {"99999999999999999999"}},
      {"layers:", {"'' in 'layers:'"}},
      {"layers:1,,2", {"'' in 'layers:1,,2'"}},
      {"layers:1,", {"'' in 'layers:1,'"}}};
  for (const auto& [text, parts] : cases) expect_error([t = text] { parse_strategy(t); }, parts);
}

TEST(Strategy, RefusesAChainThatItDoesNotFit) {
  expect_error([] { plan_of(parse_strategy("segments:4"), 3); }, {"4 segments of only 3 layers"});
  expect_error([] { plan_of(parse_strategy("layers:2,3"), 3); }, {"layer 3 was selected, there are 3"});
  expect_error([] { plan_of(parse_strategy("auto:1GiB"), 3); }, {"'auto:1GiB'", "measured"});
  expect_error([] { plan_of(parse_strategy("plan:[0] 1"), 3); },
               {"the plan ends at layer 2 of a chain of 3 layers"});
  expect_error([] { plan_of(parse_strategy("plan:[0-3]"), 3); },
               {"[0, 4)", "goes beyond a chain of 3 layers"});
  expect_error([] { plan_of(parse_strategy("plan:[0] 2"), 3); }, {"should begin at 1"});
}

// Each bracket is a call of the reader.
TEST(Strategy, RefusesAPlanWithoutEnd) {
  std::string text = "plan:";
  for (int i = 0; i < 100000; ++i) text += "[0: ";
  expect_error([&] { parse_strategy(text); }, {"is no plan"});
}

}  // namespace
}  // namespace reprise::recompute
