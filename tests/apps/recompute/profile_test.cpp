// profile: the page and the trace can be read, and they tell the same story as the allocator.
// labels: end-to-end
#include <map>
#include <set>

#include "reprise/io/json.h"
#include "reprise/tests/apps/recompute/program.h"
#include "reprise/tests/plot/no_overlaps.h"

namespace reprise::testing {
namespace {

struct Event {
  std::string phase, name, category, layer;
  int64_t process = 0;
  double begin = 0, seconds = 0;
  std::map<std::string, double> values;
};

std::vector<Event> read_trace(const std::string& path) {
  std::string text = bytes_of_file(path);
  io::JsonReader json(text, path);
  std::vector<Event> events;
  json.object([&](const std::string& key) {
    if (key != "traceEvents") return json.skip();
    json.array([&] {
      Event event;
      json.object([&](const std::string& field) {
        if (field == "ph")
          event.phase = json.string();
        else if (field == "name")
          event.name = json.string();
        else if (field == "cat")
          event.category = json.string();
        else if (field == "pid")
          event.process = json.integer();
        else if (field == "ts")
          event.begin = json.number();
        else if (field == "dur")
          event.seconds = json.number();
        else if (field == "args")
          json.object([&](const std::string& name) {
            if (json.peek() == io::JsonReader::Kind::number)
              event.values[name] = json.number();
            else if (name == "layer")
              event.layer = json.string();
            else
              json.skip();
          });
        else
          json.skip();
      });
      events.push_back(event);
    });
  });
  json.end();
  return events;
}

class Profile : public ::testing::Test {
 protected:
  void SetUp() override {
    ProgramResult result = run_recompute(recompute_arguments("profile", {"--out", folder_ / "out"}));
    ASSERT_EQ(result.code, 0) << result.err;
    out_ = result.out;
    events_ = read_trace(folder_ / "out/profile.trace.json");
  }
  std::vector<Event> of(const char* phase, int64_t process) const {
    std::vector<Event> found;
    for (const Event& event : events_)
      if (event.phase == phase && event.process == process) found.push_back(event);
    return found;
  }

  TempFolder folder_;
  std::string out_;
  std::vector<Event> events_;
};

TEST_F(Profile, MemoryEndsWithWhatStaysFromStepToStep) {
  for (int64_t process : {1, 2}) {
    std::vector<Event> memory = of("C", process);
    ASSERT_GT(memory.size(), 100u);
    EXPECT_EQ(memory.front().values["parameters"], memory.back().values["parameters"]);
    EXPECT_EQ(memory.front().values["optimizer"], memory.back().values["optimizer"]);
    EXPECT_EQ(memory.back().values["optimizer"], 2 * memory.back().values["parameters"]);
    for (const char* gone : {"activations", "gradients", "recompute", "workspace"})
      EXPECT_EQ(memory.back().values[gone], 0) << gone;
  }
}

TEST_F(Profile, RecomputeHoldsFarLessAndOnlyItReplays) {
  std::map<int64_t, double> peaks, replayed;
  for (int64_t process : {1, 2}) {
    for (Event& event : of("C", process)) {
      peaks[process] = std::max(peaks[process], event.values["activations"] + event.values["recompute"]);
      replayed[process] = std::max(replayed[process], event.values["recompute"]);
    }
  }
  EXPECT_LT(peaks[2], 0.6 * peaks[1]);
  EXPECT_EQ(replayed[1], 0);
  EXPECT_GT(replayed[2], 0);
}

TEST_F(Profile, LayersRunForwardThenBackwardAndEachIsReplayedInItsBackward) {
  std::map<std::string, Event> forward, backward, replay;
  for (const Event& event : of("X", 2)) {
    if (event.name.starts_with("forward h.")) forward[event.layer] = event;
    if (event.name.starts_with("backward h.")) backward[event.layer] = event;
    if (event.name.starts_with("replay ")) replay[event.layer] = event;
  }
  ASSERT_EQ(forward.size(), 4u);
  ASSERT_EQ(backward.size(), 4u);
  ASSERT_EQ(replay.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    std::string layer = detail::join("h.", i), next = detail::join("h.", i + 1);
    const Event &own = backward[layer], &inner = replay[layer];
    EXPECT_GE(inner.begin, own.begin);
    EXPECT_LE(inner.begin + inner.seconds, own.begin + own.seconds + 0.001);
    if (i == 3) continue;
    EXPECT_LE(forward[layer].begin + forward[layer].seconds, forward[next].begin + 0.001);
    EXPECT_GE(own.begin + 0.001, backward[next].begin + backward[next].seconds);
  }
  for (const Event& event : of("X", 1)) EXPECT_NE(event.category, "replay");
}

TEST_F(Profile, ReplaysShowTheOperationsThatTheyRunAgain) {
  std::map<std::string, std::multiset<std::string>> forward, replayed;
  for (const Event& event : of("X", 2)) {
    if (!event.layer.starts_with("h.") || event.name.ends_with(event.layer)) continue;
    if (event.category == "forward") forward[event.layer].insert(event.name);
    if (event.category == "replay") replayed[event.layer].insert(event.name);
  }
  ASSERT_EQ(replayed.size(), 4u);
  for (auto& [layer, names] : replayed) {
    EXPECT_TRUE(std::includes(forward[layer].begin(), forward[layer].end(), names.begin(), names.end()))
        << layer;
    EXPECT_EQ(names.count("layer_norm"), 2u) << layer;
  }
}

TEST_F(Profile, EveryOperationOfALayerHasASliceForwardAndBackward) {
  std::map<std::string, std::multiset<std::string>> forward, backward;
  for (const Event& event : of("X", 1)) {
    if (!event.layer.starts_with("h.") || event.name.ends_with(event.layer)) continue;
    (event.category == "forward" ? forward : backward)[event.layer].insert(event.name);
  }
  EXPECT_EQ(forward.size(), 4u);
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward["h.0"].count("layer_norm"), 2u);
}

TEST_F(Profile, ThePageHasATimelineForEachStepAndAHeatMapAndReachesForNothingElse) {
  std::string page = bytes_of_file(folder_ / "out/profile.html");
  for (const char* part : {"recompute none: peak", "recompute full: peak", "<td>h.3</td>",
                           "embedding, head, loss", "<th>layer_<wbr>norm</th>", "<th>replay</th>", "</html>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* outside : {"src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  expect_readable(page);
  // The numbers that the script reads.
  size_t begin = page.find("<script type=\"application/json\">"), end = page.find("</script>", begin);
  ASSERT_NE(begin, std::string::npos);
  begin = page.find('>', begin) + 1;
  std::string data = page.substr(begin, end - begin);
  io::JsonReader json(data, "page");
  json.skip();
  json.end();
}

TEST_F(Profile, TextsOfPagesOfOtherModelsDoNotMeet) {
  for (const Arguments& model :
       {Arguments{"--model", "tiny", "--layers", "26", "--width", "8"},
        Arguments{"--model", "unet", "--width", "2", "--image", "16", "--batch", "2"}}) {
    Arguments all = {"profile", "--threads",      "1", "--recompute", "selective:save_matmuls",
                     "--out",   folder_ / "other"};
    all.insert(all.end(), model.begin(), model.end());
    const ProgramResult result = run_recompute(all);
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string page = bytes_of_file(folder_ / "other/profile.html");
    expect_readable(page);
    EXPECT_EQ(page.find(">0</td></tr>"), std::string::npos) << "each region makes something anew";
    EXPECT_EQ(page.find(">0.0</td>"), std::string::npos);
  }
}

TEST_F(Profile, TellsTheSameStoryUnderAutocast) {
  const ProgramResult result = run_recompute(recompute_arguments(
      "profile", {"--precision", "bf16", "--recompute", "full", "--out", folder_ / "bf16"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string page = bytes_of_file(folder_ / "bf16/profile.html");
  for (const char* part : {"recompute none: peak", "recompute full: peak", "<td>h.3</td>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  expect_readable(page);
}

TEST_F(Profile, TheTableHasWhatEachRegionSavesAndMakesAnew) {
  for (const char* region : {"h.0", "h.1", "h.2", "h.3"})
    EXPECT_NE(out_.find(std::string("\n") + region + " "), std::string::npos) << out_;
}

}  // namespace
}  // namespace reprise::testing
