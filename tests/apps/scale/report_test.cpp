// Rows of the report: stragglers against expected maxima of normal numbers, what limits, and points that others have published.
#include "reprise/apps/scale/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/tests/apps/scale/scenario.h"

namespace reprise::apps::scale {
namespace {

using namespace testing;

// Expected largest of n standard normal numbers (Teichroew 1956 and later tables), and its deviation. The mean of 400 lies within
// four of its own.
TEST(ScaleReport, TheSlowestRankIsTheExpectedMaximum) {
  const struct {
    int ranks;
    double expected, deviation;
  } table[] = {{2, 0.5642, 0.826}, {8, 1.4236, 0.611}, {100, 2.5076, 0.429}, {1000, 3.2414, 0.351}};
  for (const auto& [ranks, expected, deviation] : table) {
    const double z = (slowest_of(ranks, {.spread = 0.01}) - 1) / 0.01;
    EXPECT_NEAR(z, expected, 4 * deviation / std::sqrt(400.0)) << ranks;
  }
  EXPECT_EQ(slowest_of(1, {}), 1);
  EXPECT_EQ(slowest_of(64, {.spread = 0}), 1);
  EXPECT_NE(slowest_of(64, {.seed = 1}), slowest_of(64, {.seed = 2}));
}

Scenario scenario_of(double bytes_per_second) {
  Scenario scenario{three_layers(), plan_of_stage(0), slow_links(bytes_per_second), Reduce::ring};
  scenario.stragglers.spread = 0;
  return scenario;
}

TEST(ScaleReport, ARowSaysWhatLimits) {
  Scenario scenario = scenario_of(8);
  EXPECT_EQ(scale_row(scenario, 2).limit, "bandwidth");
  scenario = scenario_of(80);  // 0.5 s of 19 are exposed, all of them the last bucket's
  EXPECT_EQ(scale_row(scenario, 2).limit, "last bucket");
  scenario = scenario_of(8e6);
  EXPECT_EQ(scale_row(scenario, 2).limit, "compute");
  scenario.links.ring[0].node_hop = 1;
  EXPECT_EQ(scale_row(scenario, 2).limit, "latency");
  scenario.links.ring[0].node_hop = 0;
  scenario.stragglers.spread = 0.2;
  EXPECT_EQ(scale_row(scenario, 2).limit, "stragglers");
  scenario = scenario_of(8e6);
  scenario.links.network_bandwidth = 1;
  EXPECT_EQ(scale_row(scenario, 16).limit, "network");
}

TEST(ScaleReport, ARowsEfficiencyIsThatOfTokens) {
  const ScaleRow row = scale_row(scenario_of(8), 2);  // 42.5 s beside 18.5 s alone
  EXPECT_DOUBLE_EQ(row.tokens_per_second, 100 / 42.5);
  EXPECT_DOUBLE_EQ(row.efficiency, 18.5 / 42.5);
}

TEST(ScaleReport, EveryPageSaysThatItIsASimulationAndItsError) {
  const Scenario scenario = scenario_of(8);
  const std::vector<ScaleRow> rows = {scale_row(scenario, 2)};
  const std::string table = to_table(scenario, rows, {}), json = to_json(scenario, rows, {});
  EXPECT_TRUE(table.starts_with("SIMULATED, not measured")) << table;
  EXPECT_TRUE(json.starts_with("{\"simulation\": true")) << json;
  for (const std::string& page : {table, json}) {
    EXPECT_NE(page.find(validation()), std::string::npos) << page;
    EXPECT_NE(page.find("not against runs of Reprise"), std::string::npos) << page;
  }
}

// Seconds of every layer such that `ranks` ranks have this step. Only its size is taken from the published point: how it changes
// with the ranks is the simulator's.
void calibrate(Scenario& scenario, int ranks, double step) {
  for (int round = 0; round < 20; ++round) {
    const double factor = step / scale_row(scenario, ranks).times.step;
    for (Layer& layer : scenario.profile.layers) {
      layer.forward_seconds *= factor;
      layer.backward_seconds *= factor;
    }
  }
}

// torchtitan, benchmarks/llama3_h100_202412: Llama 3.1 8B, FSDP, 2 x 8,192 tokens per GPU, 8 H100 a node with 400 Gb/s each. From
// 8 to 128 GPUs 5,762 -> 5,605 tokens per second and GPU, compiled 6,667 -> 6,514.
TEST(ScaleReport, TorchtitansEfficiencyFrom8To128Gpus) {
  TrainingPlan plan{.zero = 3};
  plan.compute_bytes = 2;
  for (auto [at_8, at_128] : {std::pair{5762.0, 5605.0}, {6667.0, 6514.0}}) {
    Scenario scenario{assumed_profile(model_shape("llama3_8b"), {2, 8192}, device_speed("h100"), true, false),
                      plan, nvlink4(8, 400), Reduce::ring};
    calibrate(scenario, 8, 2 * 8192 / at_8);
    const double simulated =
        scale_row(scenario, 128).tokens_per_second / scale_row(scenario, 8).tokens_per_second;
    EXPECT_NEAR(100 * simulated, 100 * at_128 / at_8, validated_efficiency_points);
    RecordProperty("simulated", std::to_string(100 * simulated));
  }
}

// LLMQ, benchmarks/H100x1 and H100x8: Qwen2.5-0.5B in bf16, 512 rows of 1,024 tokens per step, micro-batches of 32. Steps of 3.50
// s on one GPU, 0.45 s on eight. It sends one gradient and one weight, of 2 bytes each, and keeps weights of 16 bits.
TEST(ScaleReport, LlmqsEfficiencyFrom1To8Gpus) {
  TrainingPlan plan{.zero = 2, .micro_batches = 16};
  plan.weight_bytes = plan.compute_bytes = plan.wire_bytes = 2;
  Scenario scenario{
      assumed_profile(model_shape("qwen2.5_0.5b"), {32, 1024}, device_speed("h100"), true, true), plan,
      nvlink4(8, 400), Reduce::ring};
  calibrate(scenario, 1, 3.50);
  const double simulated = scale_row(scenario, 8).efficiency;
  EXPECT_NEAR(100 * simulated, 100 * 3.50 / 8 / 0.45, validated_efficiency_points);
  RecordProperty("simulated", std::to_string(100 * simulated));
}

// ./run bench scale on 2026-11-27: GPT of 6 blocks of width 384, 4 x 256 tokens per rank, over Gloo on links that tbf limits. Given are
// the step of ranks that send nothing, their spread and the rate, of which tbf counts 1,514 bytes of a packet's 1,538.
TEST(ScaleReport, OurStepsOn2And4RanksOverSlowNetworks) {
  struct Run {
    int ranks;
    double alone, spread, megabits, measured;
  };
  for (const Run& run : {Run{2, 0.8658, 0.174, 100, 4.3956}, Run{2, 0.8658, 0.174, 200, 2.6069},
                         Run{2, 0.8658, 0.174, 400, 1.7501}, Run{4, 1.5737, 0.041, 100, 7.0435},
                         Run{4, 1.5737, 0.041, 200, 4.1216}, Run{4, 1.5737, 0.041, 400, 2.8418}}) {
    Scenario scenario{assumed_profile(model_shape("gpt_6x384"), {4, 256}, device_speed("h100"), false, false),
                      {},
                      gloo(1, run.megabits / 1000 * 1538 / 1514),
                      Reduce::tree,
                      {.spread = run.spread, .seed = 1337}};
    calibrate(scenario, 1, run.alone);
    const double simulated = scale_row(scenario, run.ranks).times.step;
    EXPECT_NEAR(100 * simulated / run.measured, 100, validated_step_percent)
        << run.ranks << " ranks, " << run.megabits << " Mbit/s";
  }
}

}  // namespace
}  // namespace reprise::apps::scale
