// compare: every strategy is in the table, the page and the JSON, and memory falls as it should.
// labels: end-to-end
#include <map>

#include "reprise/io/json.h"
#include "reprise/tests/apps/recompute/program.h"
#include "reprise/tests/plot/no_overlaps.h"

namespace reprise::testing {
namespace {

using Row = std::map<std::string, double>;

std::map<std::string, Row> read_rows(const std::string& path) {
  std::string text = bytes_of_file(path);
  io::JsonReader json(text, path);
  std::map<std::string, Row> rows;
  json.object([&](const std::string& key) {
    if (key != "strategies") return json.skip();
    json.array([&] {
      std::string name;
      Row row;
      json.object([&](const std::string& field) {
        if (field == "strategy")
          name = json.string();
        else
          row[field] = json.number();
      });
      rows[name] = row;
    });
  });
  json.end();
  return rows;
}

TEST(Compare, HasEveryStrategyInTableJsonAndPageAndTheirPeaksFall) {
  TempFolder folder;
  ProgramResult result =
      run_recompute(recompute_arguments("compare", {"--rounds", "1", "--out", folder / "out"}));
  ASSERT_EQ(result.code, 0) << result.err;
  std::map<std::string, Row> rows = read_rows(folder / "out/compare.json");
  std::string page = bytes_of_file(folder / "out/compare.html");
  for (const char* strategy :
       {"none", "full", "selective", "selective:save_attention", "selective:save_matmuls", "every:2",
        "every:3", "sqrt", "offload", "auto:25%", "auto:50%", "keep:3"}) {
    EXPECT_NE(result.out.find(std::string("\n") + strategy + " "), std::string::npos) << result.out;
    EXPECT_NE(page.find(std::string(">") + strategy + "</text>"), std::string::npos) << strategy;
    ASSERT_TRUE(rows.contains(strategy)) << strategy;
    EXPECT_GT(rows[strategy]["seconds_per_step"], 0);
  }
  for (const char* field : {"peak_bytes", "peak_activation_bytes", "held_bytes"}) {
    EXPECT_LT(rows["full"][field], rows["every:2"][field]) << field;
    EXPECT_LT(rows["every:2"][field], rows["none"][field]) << field;
    EXPECT_LT(rows["sqrt"][field], rows["none"][field]) << field;
    EXPECT_LT(rows["selective"][field], rows["none"][field]) << field;
    EXPECT_LT(rows["full"][field], rows["selective"][field]) << field;
    EXPECT_LT(rows["auto:50%"][field], rows["none"][field]) << field;
  }
  EXPECT_LE(rows["auto:25%"]["peak_bytes"], rows["auto:50%"]["peak_bytes"]);
  EXPECT_NEAR(rows["full"]["saved_percent"],
              100 - 100 * rows["full"]["peak_activation_bytes"] / rows["none"]["peak_activation_bytes"],
              1e-9);
  EXPECT_EQ(rows["none"]["overhead_percent"], 0);
}

// What the graph keeps of products has half its bytes under autocast.
TEST(Compare, UnderAutocastLessIsHeldForBackward) {
  auto held = [](const char* precision) {
    TempFolder folder;
    const ProgramResult result =
        run_recompute(recompute_arguments("compare", {"--rounds", "1", "--recompute", "full", "--precision",
                                                      precision, "--out", folder / "out"}));
    EXPECT_EQ(result.code, 0) << result.err;
    return read_rows(folder / "out/compare.json")["none"]["held_bytes"];
  };
  const double f32 = held("f32"), bf16 = held("bf16");
  EXPECT_GT(bf16, 0.5 * f32);
  EXPECT_LT(bf16, 0.8 * f32);
}

// However many blocks there are, and however long names are.
TEST(Compare, TextsOfThePageDoNotMeetAndNothingSmallIsWrittenAsNothing) {
  const std::vector<Arguments> models = {
      {"--model", "tiny", "--recompute", "full", "selective:save_attention", "selective:save_matmuls",
       "every:2", "keep:2", "offload:recompute_cheap"},
      {"--model", "tiny", "--layers", "26", "--width", "8", "--recompute", "full", "sqrt", "every:2",
       "keep:3"},
      {"--model", "jepa_tiny", "--layers", "2", "--image", "32", "--batch", "2", "--recompute",
       "selective:save_attention+selective:save_matmuls", "full+selective:save_attention", "none+full"}};
  for (const Arguments& model : models) {
    TempFolder folder;
    Arguments all = {"compare", "--threads", "1", "--rounds", "2", "--out", folder / "out"};
    all.insert(all.end(), model.begin(), model.end());
    const ProgramResult result = run_recompute(all);
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string page = bytes_of_file(folder / "out/compare.html");
    expect_readable(page);
    EXPECT_EQ(page.find("<td>0.0</td>"), std::string::npos);
    const size_t zeros = page.find("<td>0</td><td>0</td></tr>");
    ASSERT_NE(zeros, std::string::npos) << "none saves nothing, and has no overhead against itself";
    EXPECT_EQ(page.find("<td>0</td>", zeros + 20), std::string::npos) << "alone";
    for (auto& [strategy, row] : read_rows(folder / "out/compare.json")) {
      EXPECT_LE(row["least_seconds"], row["seconds_per_step"]) << strategy;
      EXPECT_LE(row["seconds_per_step"], row["most_seconds"]) << strategy;
      EXPECT_GT(row["least_seconds"], 0) << strategy;
    }
  }
}

TEST(Compare, TakesStrategiesAndPutsNoneFirst) {
  TempFolder folder;
  ProgramResult result = run_recompute(recompute_arguments(
      "compare", {"--rounds", "1", "--recompute", "sqrt", "layers:0,2", "--out", folder / "out"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_rows(folder / "out/compare.json").size(), 3u);
  EXPECT_LT(result.out.find("\nnone "), result.out.find("\nsqrt "));
  EXPECT_LT(result.out.find("\nsqrt "), result.out.find("\nlayers:0,2 "));
}

TEST(Compare, ThePageReachesForNothingElse) {
  TempFolder folder;
  run_recompute(recompute_arguments("compare", {"--rounds", "1", "--out", folder / "out"}));
  std::string page = bytes_of_file(folder / "out/compare.html");
  for (const char* outside : {"src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

}  // namespace
}  // namespace reprise::testing
