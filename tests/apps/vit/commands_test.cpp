// reprise-vit from end to end: what training leaves behind, and what the other commands say of it.
// labels: end-to-end
#include "reprise/io/images/png.h"
#include "reprise/io/json.h"
#include "reprise/tests/apps/vit/program.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// One trained run for the tests that only read it.
class VitRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    data_ = tiny_images(*folder_);
    printed_ = run_vit(vit_arguments(data_, out(), 150, {"--lr", "0.01", "--eval-every", "50"}));
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string out() { return *folder_ / "run"; }

  static TempFolder* folder_;
  static std::string data_, printed_;
};
TempFolder* VitRun::folder_ = nullptr;
std::string VitRun::data_, VitRun::printed_;

TEST_F(VitRun, LearnsLinesAndSaysHowWell) {
  double accuracy = 0;
  for (const io::RunRecord& record : io::read_run_log(out() + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics)
      if (name == "val_accuracy") accuracy = value;
  EXPECT_GT(accuracy, 0.6) << "a third would be chance";
  for (const char* part :
       {"ViT: 1 layers, 2 heads", "3 classes", "Done: step 150", "Test: top-1 ", "report.html"})
    EXPECT_NE(printed_.find(part), std::string::npos) << part << " in " << printed_;
}

TEST_F(VitRun, LeavesAPageThatStandsAlone) {
  for (const char* name : {"loss.svg", "confusion.svg", "samples.svg", "attention.svg", "config.toml",
                           "data.toml", "checkpoints/LATEST"})
    EXPECT_TRUE(fs::exists(out() + "/" + name)) << name;
  std::string page = bytes_of_file(out() + "/report.html");
  for (const char* part : {"Confusion", "Mistakes", "Attention", "data:image/png;base64,"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* link : {"src=\"http", "href=\"http", "url(http"})
    EXPECT_EQ(page.find(link), std::string::npos);
}

// The end of training and eval look at the same images with the same weights.
TEST_F(VitRun, EvalSaysWhatTrainingSaid) {
  std::string line = run_vit({"eval", "--run", out()});
  size_t at = printed_.find("Test: ") + 6;
  EXPECT_EQ(line.substr(0, line.find('\n')), printed_.substr(at, printed_.find('\n', at) - at));
  std::string json_text = run_vit({"eval", "--run", out(), "--json", "--part", "validation"});
  double top1 = -1, images = 0;
  io::JsonReader json(json_text, "eval");
  json.object([&](const std::string& key) {
    if (key == "top1")
      top1 = json.number();
    else if (key == "images")
      images = json.number();
    else
      json.skip();
  });
  EXPECT_GE(top1, 0);
  EXPECT_GT(images, 0);
  EXPECT_LT(images, 30) << "about a tenth of 90 were held out";
}

TEST_F(VitRun, PredictAnswersEachFileAndNamesThoseItCannotRead) {
  io::Image column;
  column.resize(8, 8, 1);
  for (int64_t y = 0; y < 8; ++y) column.row(y)[3] = 230;
  std::string good = folder_->write("column.png", io::encode_png(column));
  std::string bad = folder_->write("words.png", "no image");
  Program program({"predict", bad, good, folder_->operator/("missing.png"), "--run", out()}, "",
                  vit_program());
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(program.out().find("column.png: 0 "), std::string::npos) << program.out();
  EXPECT_NE(program.err().find("words.png"), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("missing.png"), std::string::npos) << program.err();
  std::string json = run_vit({"predict", good, "--run", out(), "--json"});
  EXPECT_NE(json.find("{\"name\": \"0\", \"probability\": 0."), std::string::npos) << json;
}

TEST_F(VitRun, CheckCountsEveryPart) {
  std::string text = run_vit({"check", "--data", data_});
  EXPECT_NE(text.find("test: 30 images, 3 classes, 0 unreadable"), std::string::npos) << text;
  EXPECT_NE(text.find("1 sizes, most often 8 x 8 (30 images)"), std::string::npos) << text;
}

TEST_F(VitRun, StartsFromItsWeights) {
  std::string printed = run_vit(vit_arguments(
      data_, *folder_ / "next", 1, {"--init-from", out() + "/checkpoints/step-00000150/model.safetensors"}));
  EXPECT_NE(printed.find("Done: step 1"), std::string::npos);
  expect_vit_refused(vit_arguments(data_, *folder_ / "other", 1, {"--init-from", out(), "--width", "32"}),
                     {"--init-from", "blocks.0.attn.qkv.weight"});
}

}  // namespace
}  // namespace reprise::apps
