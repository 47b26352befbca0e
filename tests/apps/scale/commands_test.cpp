// reprise-scale from end to end.
// labels: end-to-end
#include "reprise/apps/scale/step_profile.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps::scale {
namespace {

using namespace testing;

std::string run_scale(const Arguments& arguments, int code = 0) {
  Program program(arguments, "", scale_program());
  EXPECT_EQ(program.wait(), code) << program.err();
  return code == 0 ? program.out() : program.err();
}

TEST(ScaleCommand, AloneItPrintsATableTo4096Ranks) {
  const std::string table = run_scale({});
  EXPECT_TRUE(table.starts_with("SIMULATED, not measured: a training step of gpt2_124m")) << table;
  EXPECT_NE(table.find("\n  4096    512 "), std::string::npos) << table;
  EXPECT_NE(table.find("assumed of an h100"), std::string::npos) << table;
}

TEST(ScaleCommand, WhatAPlanningUserTypes) {
  const std::string json =
      run_scale({"--model", "gpt2_124m", "--device", "h100", "--ranks", "8,64,512", "--batch", "64",
                 "--precision", "bf16", "--zero", "1", "--per-node", "8", "--network", "400", "--json"});
  std::vector<int64_t> ranks;
  std::vector<double> efficiency;
  io::JsonReader reader(json, "the output");
  reader.object([&](const std::string& key) {
    if (key != "rows") return reader.skip();
    reader.array([&] {
      reader.object([&](const std::string& name) {
        if (name == "ranks")
          ranks.push_back(reader.integer());
        else if (name == "efficiency")
          efficiency.push_back(reader.number());
        else
          reader.skip();
      });
    });
  });
  reader.end();
  EXPECT_EQ(ranks, (std::vector<int64_t>{8, 64, 512}));
  ASSERT_EQ(efficiency.size(), 3u);
  EXPECT_LT(efficiency[0], 1);
  EXPECT_LT(efficiency[2], efficiency[0]);
}

TEST(ScaleCommand, LayersMeasuredHereAreWrittenAndRead) {
  const TempFolder folder;
  const std::string file = folder / "layers.json";
  const std::string measured =
      run_scale({"--model", "gpt_2x32", "--device", "cpu", "--batch", "2", "--length", "16", "--precision",
                 "f32", "--ranks", "1,2", "--write-layers", file});
  EXPECT_NE(measured.find("measured here on cpu"), std::string::npos) << measured;
  EXPECT_NE(measured.find("Gloo"), std::string::npos) << measured;
  const StepProfile profile = profile_from_json(file);
  EXPECT_EQ(profile.tokens, 32);
  EXPECT_TRUE(profile.is_measured);
  ASSERT_EQ(profile.layers.size(), 4u);
  for (const Layer& layer : profile.layers) {
    EXPECT_GT(layer.forward_seconds, 0) << layer.name;
    EXPECT_GT(layer.backward_seconds, 0) << layer.name;
  }
  EXPECT_EQ(profile_to_json(profile), io::read_file(file));
  const std::string again =
      run_scale({"--layers", file, "--links", "gloo", "--precision", "f32", "--ranks", "1,2"});
  EXPECT_EQ(again.substr(again.find("\n ranks")), measured.substr(measured.find("\n ranks")));
}

TEST(ScaleCommand, DamagedLayersAreRefusedWithTheFile) {
  const TempFolder folder;
  const std::string file = folder / "layers.json",
                    good = R"({"model": "m", "origin": "o", "measured": true, "tokens": 8,
      "update_seconds": 0.1, "layers": [{"name": "a", "parameters": [3], "forward_seconds": 1, "backward_seconds": 2,
      "saved_bytes": 0, "output_bytes": 0, "block": false}]})";
  auto refused = [&](const std::string& from, const std::string& to, const std::string& what) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    std::ofstream(file) << text;
    const std::string line = run_scale({"--layers", file}, 2);
    EXPECT_TRUE(line.starts_with("reprise-scale: --layers: ")) << line;
    EXPECT_NE(line.find(file), std::string::npos) << line;
    EXPECT_NE(line.find(what), std::string::npos) << line;
  };
  refused("\"tokens\": 8,", "", "'tokens' is missing");
  refused("\"tokens\": 8", "\"tokens\": 0", "from 1 to 2^50");
  refused("\"forward_seconds\": 1", "\"forward_seconds\": -1", "from 0 to 1e18");
  refused("\"name\"", "\"nome\"", "'nome' is unknown");
  refused("[3]", "[]", "no parameters");
  refused("}]}", "}]", "");
}

TEST(ScaleCommand, BadOptionsAreNamed) {
  const std::pair<Arguments, std::vector<std::string>> cases[] = {
      {{"--ranks", "12"}, {"--ranks 12", "--per-node 8"}},
      {{"--ranks", "8", "--accumulate", "12"}, {"--accumulate 12", "--ranks 8"}},
      {{"--ranks", "8000"}, {"--ranks", "4096"}},
      {{"--model", "gpt_5"}, {"--model", "gpt_5"}},
      {{"--model", "llama3_8b", "--device", "cpu"}, {"llama3_8b", "cannot run"}},
      {{"--device", "tpu"}, {"--device", "tpu", "h100"}},
      {{"--length", "2048"}, {"--length 2048", "1024"}},
      {{"--device", "cpu", "--tflops", "3"}, {"--tflops"}},
      {{"--links", "gloo", "--reduce", "nvls"}, {"--reduce nvls"}},
      {{"--layers", "/no/such/file"}, {"--layers", "/no/such/file"}},
  };
  for (const auto& [arguments, parts] : cases) {
    const std::string line = run_scale(arguments, 2);
    EXPECT_TRUE(line.starts_with("reprise-scale: ")) << line;
    for (const std::string& part : parts)
      EXPECT_NE(line.find(part), std::string::npos) << line << "lacks: " << part;
  }
}

}  // namespace
}  // namespace reprise::apps::scale
