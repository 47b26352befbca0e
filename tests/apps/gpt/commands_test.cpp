// train, sample and eval from end to end: what they leave behind and print.
// labels: end-to-end
#include "reprise/io/json.h"
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// One trained run for the tests that only read it.
class TrainedRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    folder_->write("text", tiny_text());
    run(train_arguments(data(), out(), 40, {"--lr", "0.01", "--sample-every", "20", "--dropout", "0.2"}));
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string data() { return *folder_ / "text"; }
  static std::string out() { return *folder_ / "run"; }
  static std::string sample(const Arguments& more) {
    Arguments all = {"sample", "--run", out(), "--sample-tokens", "60"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }

  static TempFolder* folder_;
};
TempFolder* TrainedRun::folder_ = nullptr;

TEST_F(TrainedRun, MetricsAreOneJsonObjectAStepWithLossAndValidationLoss) {
  std::string text = bytes_of_file(out() + "/metrics.jsonl");
  std::vector<double> losses;
  int64_t validations = 0, last_step = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos) << "the last line is whole";
    std::string line = text.substr(begin, end - begin);
    io::JsonReader json(line, "metrics.jsonl");
    json.object([&](const std::string& key) {
      double value = json.number();
      if (key == "step") {
        EXPECT_GE(int64_t(value), last_step);
        last_step = int64_t(value);
      } else if (key == "loss") {
        losses.push_back(value);
      } else if (key == "val_loss") {
        EXPECT_GT(value, 0);
        ++validations;
      }
    });
    json.end();
    begin = end + 1;
  }
  EXPECT_EQ(last_step, 40);
  ASSERT_EQ(losses.size(), 40u);
  EXPECT_EQ(validations, 20);  // every 2 steps
  EXPECT_NEAR(losses[0], std::log(10), 0.15) << "8 letters, space and line break, all as likely";
  EXPECT_LT(losses[39], losses[0]) << "it learns";
}

TEST_F(TrainedRun, TheFolderHoldsWhatTheRunMade) {
  std::string plot = bytes_of_file(out() + "/loss.svg");
  EXPECT_NE(plot.find("<svg"), std::string::npos);
  EXPECT_NE(plot.find("</svg>"), std::string::npos);
  std::string samples = bytes_of_file(out() + "/samples.txt");
  EXPECT_NE(samples.find("step 20"), std::string::npos);
  EXPECT_NE(samples.find("step 40"), std::string::npos);
  for (const char* name : {"config.toml", "tokenizer/vocab.json", "checkpoints/LATEST"})
    EXPECT_TRUE(fs::exists(out() + "/" + name)) << name;
  bool events = false;
  for (const auto& entry : fs::directory_iterator(out()))
    events |= entry.path().filename().string().find("tfevents") != std::string::npos;
  EXPECT_TRUE(events);
}

TEST_F(TrainedRun, SampleRepeatsFromItsSeed) {
  std::string first = sample({});
  EXPECT_EQ(sample({}), first);
  EXPECT_NE(sample({"--sample-seed", "2"}), first);
  EXPECT_EQ(sample({"--temperature", "0", "--sample-seed", "2"}), sample({"--temperature", "0"}));
  EXPECT_EQ(sample({"--top-k", "1", "--sample-seed", "2"}), sample({"--temperature", "0"}));
  for (char c : first) EXPECT_TRUE((c >= 'a' && c <= 'h') || c == ' ' || c == '\n') << c;
}

TEST_F(TrainedRun, SampleContinuesThePromptAndNumbersAreAsAsked) {
  std::string text = sample({"--prompt", "abc def"});
  EXPECT_TRUE(text.starts_with("abc def")) << text;
  EXPECT_EQ(text.size(), 7 + 60 + 1u);
  std::string three = sample({"--samples", "3"});
  EXPECT_TRUE(three.starts_with(sample({}))) << "the first of several is the one alone";
  EXPECT_EQ(three.size(), 3 * 62u + 2 * 5);
  EXPECT_NE(three.substr(0, 61), three.substr(67, 61)) << "samples differ";
  expect_refused({"sample", "--run", out(), "--prompt", "a?"}, {"?"});
}

TEST_F(TrainedRun, SampleTakesACheckpointToo) {
  EXPECT_EQ(run({"sample", "--run", newest_checkpoint(out()), "--sample-tokens", "60"}), sample({}));
  EXPECT_EQ(run({"sample", "--run", out() + "/", "--sample-tokens", "60"}), sample({}));
}

TEST_F(TrainedRun, EvalGivesTheLossOfTheWholeHeldOutSplit) {
  double last = 0;
  for (const io::RunRecord& record : io::read_run_log(out() + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics)
      if (name == "val_loss") last = value;
  char want[64];
  std::snprintf(want, sizeof want, "validation loss %.4f", last);
  for (const char* batch : {"12", "5"}) {  // its size does not matter
    std::string text = run({"eval", "--run", out(), "--data", data(), "--batch", batch});
    EXPECT_NE(text.find(want), std::string::npos) << text << want;
    EXPECT_NE(text.find("over 149 tokens"), std::string::npos) << text;  // a tenth, but for the first
  }
}

TEST_F(TrainedRun, EvalWithoutDataTakesWhatTheRunTrainedOn) {
  EXPECT_EQ(run({"eval", "--run", out()}), run({"eval", "--run", out(), "--data", data()}));
}

TEST(Train, ReadsStandardInputAsItReadsAFile) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "file", 3));
  run(train_arguments("-", folder / "input", 3), 0, tiny_text());
  expect_same_checkpoints(folder / "input", folder / "file");
  EXPECT_EQ(measurements(folder / "input"), measurements(folder / "file"));
  expect_refused({"eval", "--run", folder / "input"}, {"--data", "standard input"});
}

TEST(Train, MicroBatchesAreTheRowsOfOneLargeBatch) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "whole", 4, {"--batch", "6"}));
  run(train_arguments(data, folder / "parts", 4, {"--batch", "2", "--accumulate", "3"}));
  auto losses = [](const std::string& run_folder) {
    std::vector<double> all;
    for (const io::RunRecord& record : io::read_run_log(run_folder + "/metrics.jsonl"))
      for (const auto& [name, value] : record.metrics)
        if (name == "loss") all.push_back(value);
    return all;
  };
  std::vector<double> whole = losses(folder / "whole"), parts = losses(folder / "parts");
  ASSERT_EQ(whole.size(), 4u);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(parts[i], whole[i], 1e-5) << "step " << i;  // sums in another order: f32 rounding
}

TEST(Train, TheConfigInTheRunFolderStartsTheSameRunAgain) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "a", 3,
                      {"--dropout", "0.1", "--no-bias", "--decay", "wsd", "--seed", "9"}));
  run({"train", "--config", folder / "a/config.toml", "--out", folder / "b"});
  expect_same_checkpoints(folder / "b", folder / "a");
  EXPECT_EQ(measurements(folder / "b"), measurements(folder / "a"));
  EXPECT_EQ(bytes_of_file(folder / "a/config.toml").find("resume"), std::string::npos);
}

TEST(Train, TheCommandLineWinsOverTheConfig) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  std::string config =
      folder.write("c.toml", "[model]\nwidth = 32\n[run]\nsteps = 9\nsave_every = 0\nbias = false\n");
  Arguments arguments = {"train",
                         "--config",
                         config,
                         "--data",
                         data,
                         "--out",
                         folder / "run",
                         "--steps",
                         "2",
                         "--layers",
                         "1",
                         "--heads",
                         "2",
                         "--context",
                         "8",
                         "--batch",
                         "2",
                         "--sample-tokens",
                         "2"};
  run(arguments);
  train::Checkpoint checkpoint = train::load_checkpoint(folder / "run", false);
  EXPECT_EQ(checkpoint.step, 2);
  EXPECT_EQ(checkpoint.model.at("width"), "32");
  EXPECT_EQ(checkpoint.model.at("bias"), "0");
}

TEST(Train, StartsFromTheWeightsOfAnotherRun) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "a", 2));
  // Without a learning rate nothing moves: what comes out is what went in.
  Arguments still = {"--lr", "0", "--min-lr", "0", "--seed", "5", "--init-from"};
  for (const std::string& from : {folder / "a", newest_checkpoint(folder / "a") + "/model.safetensors"}) {
    Arguments arguments = still;
    arguments.push_back(from);
    fs::remove_all(folder / "b");
    run(train_arguments(data, folder / "b", 1, arguments));
    train::Checkpoint a = train::load_checkpoint(folder / "a", false),
                      b = train::load_checkpoint(folder / "b", false);
    ASSERT_EQ(a.parameters.size(), b.parameters.size());
    for (size_t i = 0; i < a.parameters.size(); ++i)
      EXPECT_EQ(a.parameters[i].second.to_vector<double>(), b.parameters[i].second.to_vector<double>());
  }
}

TEST(Train, LearnsFromTokenFiles) {
  TempFolder folder;
  std::string train, validation;
  for (uint64_t i = 0; i < 400; ++i) {
    (i < 300 ? train : validation) += char(philox_block(1, 0, i)[0] % 13);
    (i < 300 ? train : validation) += '\0';
  }
  train += std::string("\x0c\0", 2);
  run(train_arguments(folder.write("t.bin", train), folder / "run", 2,
                      {"--val-data", folder.write("v.bin", validation)}));
  EXPECT_EQ(train::load_checkpoint(folder / "run", false).model.at("vocab_size"), "13");
  std::string ids = run({"sample", "--run", folder / "run", "--sample-tokens", "4"});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ' '), 5) << ids;
  EXPECT_EQ(run({"eval", "--run", folder / "run"}), run({"eval", "--run", folder / "run", "--data",
                                                         folder / "t.bin", "--val-data", folder / "v.bin"}));
}

TEST(Help, IsPrintedForEveryCommandAndNamesItsOptions) {
  for (auto [command, option] :
       {std::pair("train", "--weight-decay"), std::pair("sample", "--top-p"), std::pair("eval", "--batch")}) {
    EXPECT_NE(run({command, "--help"}).find(option), std::string::npos);
    EXPECT_NE(run({"--help"}).find(command), std::string::npos);
  }
}

}  // namespace
}  // namespace reprise::apps
