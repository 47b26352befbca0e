// Options from the command line and from TOML: read strictly, refused before anything is written, with the
// place. labels: end-to-end
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

TEST(Options, AreRefusedBeforeAnythingIsWrittenAndByName) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  auto expect = [&](const Arguments& more, const std::vector<std::string>& parts) {
    expect_refused(train_arguments(data, folder / "new/run", 2, more), parts);
    EXPECT_FALSE(fs::exists(folder / "new")) << more[0];
  };
  expect({"--seed", "9223372036854775808"}, {"--seed", "9223372036854775808"});
  expect({"--accumulate", "1e3"}, {"--accumulate", "1e3"});
  expect({"--batch", "1000000000000"}, {"--batch 1000000000000"});
  expect({"--context", "9223372036854775807"}, {"--context 9223372036854775807"});
  expect({"--val-fraction", "1e-9"}, {"--val-fraction 1e-09", data});
  expect({"--layers", "1000000000"}, {"--layers 1000000000"});
  expect({"--width", "4000000000"}, {"--width 4000000000"});
  expect({"--threads", "5000"}, {"--threads", "5000"});
  expect({"--init-from", folder / "none"}, {"--init-from", folder / "none"});
  expect({"--prompt", "Zebra"}, {"--prompt", "Z"});
}

TEST(Options, OutFoldersThatCannotBeAreRefused) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  for (std::string out : {folder / std::string(300, 'x'), std::string("/dev/null"), data, data + "/x"})
    expect_refused(train_arguments(data, out, 2), {"--out"});
  EXPECT_EQ(bytes_of_file(data), tiny_text());
}

TEST(Config, OnlyARegularFileIsReadAndNoOptionTwice) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (std::string path :
       {std::string("/dev/zero"), std::string("/dev/urandom"), folder / "pipe", folder.path()})
    expect_refused(train_arguments(data, folder / "run", 2, {"--config", path}), {"--config", path});
  auto expect = [&](const std::string& text, const std::vector<std::string>& parts) {
    std::string path = folder.write("c.toml", text);
    expect_refused({"train", "--data", data, "--out", folder / "run", "--config", path}, parts);
  };
  expect("[a]\nseed = 1\n[b]\nseed = 2\n", {"c.toml:4: seed", "c.toml:2: seed"});
  expect("min-lr = 1\nmin_lr = 1\n", {"c.toml:2", "c.toml:1"});
  expect("layers = [1, 2]\n", {"c.toml:1: layers"});
  expect("steps = 1e3\n", {"c.toml:1: steps"});
  expect("decay = ''\n", {"c.toml:1: decay"});
  expect("\nwidth = 9\nheads = 2\n", {"--width 9", "c.toml:2: width", "c.toml:3: heads"});
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "a.";
  expect(deep + "b = 1\n", {"c.toml", "more keys"});
}

TEST(Config, ANegatedFlagAndAnyPathComeBackAsTheyWere) {
  TempFolder folder;
  std::string data = folder.write("a\xff\"\\\x01", tiny_text());
  std::string config = folder.write("c.toml", "no_bias = true\n");
  run(train_arguments(data, folder / "run", 2, {"--config", config, "--prompt", "a"}));
  EXPECT_EQ(train::load_checkpoint(folder / "run", false).model.at("bias"), "0");
  EXPECT_NE(run({"eval", "--run", folder / "run"}).find(data), std::string::npos);
}

TEST(InitFrom, KeepsTheAlphabetOfTheWeights) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "a", 2));
  std::string other = tiny_text();  // as many characters, but an i for each h
  std::replace(other.begin(), other.end(), 'h', 'i');
  other.back() = '!';  // of the part that is held out
  size_t at = other.find('i');
  for (const std::string& from : {folder / "a", newest_checkpoint(folder / "a"),
                                  newest_checkpoint(folder / "a") + "/model.safetensors"})
    expect_refused(train_arguments(folder.write("other", other), folder / "b", 2, {"--init-from", from}),
                   {"'i'", "byte " + std::to_string(at), folder / "other", "U+0021 '!' are not in"});
  fs::copy(newest_checkpoint(folder / "a") + "/model.safetensors", folder / "w.safetensors");
  Program alone(train_arguments(data, folder / "c", 2, {"--init-from", folder / "w.safetensors"}));
  EXPECT_EQ(alone.wait(), 0);
  EXPECT_NE(alone.err().find("no tokenizer beside"), std::string::npos) << alone.err();
}

}  // namespace
}  // namespace reprise::apps
