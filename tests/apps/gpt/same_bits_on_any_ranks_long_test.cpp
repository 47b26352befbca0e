// SameBitsOnAnyRanks: a GPT of 4 layers and width 128 on 1 to 8 ranks has the bits of one process, whatever the stage of ZeRO,
// recompute, threads and precision: each two values of any two of these meet in a run.
// labels: end-to-end, long
#include <array>
#include <map>
#include <set>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

struct Micro {
  const char *batches, *ranks;
};
constexpr std::array<Micro, 9> kRanks = {{{"8", "1"},
                                          {"8", "2"},
                                          {"8", "4"},
                                          {"8", "8"},
                                          {"12", "1"},
                                          {"12", "2"},
                                          {"12", "3"},
                                          {"12", "4"},
                                          {"12", "6"}}};
constexpr std::array kRecompute = {"none", "full", "selective", "offload"};
constexpr std::array kStages = {"0", "1", "2"};
constexpr std::array kPrecisions = {"f32", "bf16", "f16"};  // f16: at a scale at which some steps are skipped
constexpr std::array kThreads = {"1", "2"};

/// One value of each, by place: ranks, recompute, stage, precision, threads.
using Row = std::array<size_t, 5>;
constexpr std::array<size_t, 5> kLevels = {kRanks.size(), kRecompute.size(), kStages.size(),
                                           kPrecisions.size(), kThreads.size()};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (size_t q = 0; q < kRecompute.size(); ++q)
    for (size_t r = 0; r < kRanks.size(); ++r)
      all.push_back({r, q, (r + q) % 3, (r + 2 * q) % 3, (q + r / 3) % 2});
  return all;
}

TEST(RowsOfSameBits, HaveAllPairs) {
  for (size_t a = 0; a < kLevels.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      std::set<std::pair<size_t, size_t>> met;
      for (const Row& row : rows()) met.emplace(row[a], row[b]);
      EXPECT_EQ(met.size(), kLevels[a] * kLevels[b]) << a << " and " << b;
    }
}

struct SameBitsOnAnyRanks : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text(6000));

  std::string train(const std::string& out, const Row& row) const {
    Arguments options = {"--layers", "4", "--heads", "4", "--width", "128", "--context", "32"};
    options.insert(options.end(), {"--dropout", "0.1", "--eval-every", "10"});
    options.insert(options.end(), {"--accumulate", kRanks[row[0]].batches, "--ranks", kRanks[row[0]].ranks});
    options.insert(options.end(), {"--recompute", kRecompute[row[1]], "--zero", kStages[row[2]]});
    options.insert(options.end(), {"--precision", kPrecisions[row[3]], "--threads", kThreads[row[4]]});
    if (kPrecisions[row[3]] == std::string("f16"))
      options.insert(options.end(), {"--init-scale", "67108864"});
    testing::run(train_arguments(data, folder / out, 20, options));
    return folder / out;
  }
};

bool has_skipped(const std::string& run_folder) {
  for (const std::string& line : measurements(run_folder))
    if (line.find(" skipped ") != std::string::npos && line.find(" 0x0p+0") == std::string::npos) return true;
  return false;
}

TEST_F(SameBitsOnAnyRanks, OfEachPairOfValues) {
  std::map<std::pair<std::string, size_t>, std::string> references;
  size_t number = 0;
  for (const Row& row : rows()) {
    const std::string batches = kRanks[row[0]].batches;
    std::string& want = references[{batches, row[3]}];
    if (want.empty())
      want = train("one" + std::to_string(++number), {batches == "8" ? 0u : 4u, 0, 0, row[3], 0});
    const std::string got = train("run" + std::to_string(++number), row);
    SCOPED_TRACE(detail::join(kRanks[row[0]].ranks, " ranks, ", kRecompute[row[1]], ", stage ",
                              kStages[row[2]], ", ", kPrecisions[row[3]], ", ", kThreads[row[4]],
                              " threads, ", batches, " micro-batches"));
    expect_same_checkpoints(got, want);
    EXPECT_EQ(measurements(got), measurements(want));
  }
  for (const auto& [key, run] : references) EXPECT_EQ(has_skipped(run), key.second == 2) << run;
}

}  // namespace
}  // namespace reprise::apps
