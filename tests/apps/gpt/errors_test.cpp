// Bad input: exit code 2 and one line that says what and where; nothing is overwritten.
// labels: end-to-end
#include <sys/resource.h>

#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string tokens(const std::vector<uint16_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()};
}

TEST(Refusals, NameTheOptionThatIsUnknownOrDoesNotFit) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  auto expect = [&](const Arguments& more, const std::vector<std::string>& parts) {
    expect_refused(train_arguments(data, folder / "run", 2, more), parts);
    EXPECT_FALSE(fs::exists(folder / "run")) << more[0];
  };
  expect({"--learning-rate", "1"}, {"--learning-rate"});
  expect({"--lr", "fast"}, {"--lr", "fast"});
  expect({"--batch", "0"}, {"--batch", "0"});
  expect({"--dropout", "1"}, {"--dropout", "1"});
  expect({"--heads", "3"}, {"--heads 3", "--width 16"});
  expect({"--top-p", "0"}, {"top-p", "0"});
  expect({"--decay", "cosin"}, {"cosin", "cosine"});
  expect({"--min-lr", "1"}, {"--min-lr 1", "--lr"});
  expect({"--val-fraction", "1"}, {"--val-fraction", "1"});
  expect({"--memory-limit", "lots"}, {"lots", "512MiB"});
  expect({"--recompute", "foo"},
         {"recompute: unknown strategy 'foo'; use none, full, selective:save_attention, every:3, keep:3"});
  expect({"--recompute", "every"}, {"every:3"});
  expect({"--recompute", "keep:0"}, {"--recompute", "'keep:0'", "keep is at least 1"});
  expect({"--recompute", "segments:2"}, {"2 segments of only 1 layers"});
  expect({"--recompute", "layers:1"}, {"layer 1 was selected, there are 1"});
  expect({"--device", "toaster"}, {"toaster"});
  expect({"--attention", "full"}, {"--attention", "full", "cudnn"});
  expect({"--attention", "cudnn", "--device", "cpu"}, {"--attention cudnn", "cpu"});
  expect({"--context", "1500"}, {"1350", "1500"});  // the training part is shorter than one row
  expect({"--resume"}, {"--resume", "no checkpoint", folder / "run"});
  expect({"--prompt", "Zebra"}, {"Z"});
  expect_refused({}, {"subcommand"});
  expect_refused({"trian", "--steps", "4"}, {"no command 'trian'", "--help"});
  expect_refused({"fly"}, {"fly"});
}

TEST(Refusals, NameFileLineAndKeyOfAConfig) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  auto expect = [&](const std::string& config, const std::vector<std::string>& parts) {
    std::string path = folder.write("config.toml", config);
    std::vector<std::string> all = parts;
    all.push_back(path);
    expect_refused(train_arguments(data, folder / "run", 2, {"--config", path}), all);
    EXPECT_FALSE(fs::exists(folder / "run"));
  };
  expect("lr = 0.01\n\nlearning_rate = 1\n", {":3:", "learning_rate"});
  expect("[model]\nlayer = 3\n", {":2:", "layer"});
  expect("lr = 0.01\nbeta1 = \"much\"\n", {":2:", "beta1", "much"});
  expect("clip = -1\n", {":1:", "clip", "-1"});
  expect("lr = \n", {":1"});
  expect("config = \"other.toml\"\n", {":1:", "config"});
  expect_refused(train_arguments(data, folder / "run", 2, {"--config", folder / "none.toml"}),
                 {"--config", folder / "none.toml"});
}

TEST(Refusals, NameDataThatIsMissingEmptyOrNotText) {
  TempFolder folder;
  auto expect = [&](const std::string& data, const std::vector<std::string>& parts) {
    expect_refused(train_arguments(data, folder / "run", 2), parts);
    EXPECT_FALSE(fs::exists(folder / "run"));
  };
  expect(folder / "none.txt", {folder / "none.txt", "No such file"});
  expect(folder.write("empty.txt", ""), {folder / "empty.txt", "empty"});
  expect(folder.write("binary.txt", "good\xff\xfe"), {folder / "binary.txt", "4"});
  expect(folder.write("short.txt", "abc"), {"token"});
  expect(folder.write("data.bin", tokens({1, 2, 3})), {"--val-data", folder / "data.bin"});
  expect(folder.write("odd.bin", "abc"), {"--val-data"});
  expect_refused({"train", "--out", folder / "run"}, {"--data"});
}

TEST(Refusals, NameFilePositionAndValueOfATokenOutOfRange) {
  TempFolder folder;
  std::vector<uint16_t> ids(100, 3);
  std::string good = folder.write("good.bin", tokens(ids));
  ids[57] = 12;
  std::string bad = folder.write("bad.bin", tokens(ids));
  Arguments size = {"--vocab-size", "10"};
  for (auto [train, validation] : {std::pair(bad, good), std::pair(good, bad)}) {
    expect_refused(train_arguments(train, folder / "run", 2, with({"--val-data", validation}, size)),
                   {bad, "token 12", "position 57", "vocabulary of 10"});
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
  // The vocabulary of the training data does not hold it either.
  expect_refused(train_arguments(good, folder / "run", 2, {"--val-data", bad}),
                 {bad, "token 12", "position 57"});
  run(train_arguments(bad, folder / "run", 2, {"--val-data", good}));
}

TEST(Refusals, NothingInAFullRunFolderIsTouched) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  folder.write("run/notes", "mine");
  expect_refused(train_arguments(data, folder / "run", 2), {"--out", folder / "run", "--resume"});
  EXPECT_EQ(bytes_of_file(folder / "run/notes"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "run"), {}), 1);
  expect_refused(train_arguments(data, data, 2), {"--out", data});
  EXPECT_EQ(bytes_of_file(data), tiny_text());
}

std::string snapshot(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string() + ": " + bytes_of_file(entry.path()));
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& file : files) all += file;
  return all;
}

TEST(Refusals, ARunOfAnotherModelIsNotResumedAndStaysAsItIs) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  run(train_arguments(data, out, 4, {"--stop-after", "2"}));
  std::string before = snapshot(out);
  for (const Arguments& more : {Arguments{"--width", "32"},
                                {"--layers", "2"},
                                {"--no-bias"},
                                {"--context", "4"},
                                {"--dropout", "0.5"},
                                {"--ema", "0.9"}}) {
    expect_refused(train_arguments(data, out, 4, with({"--resume"}, more)), {"resume", out});
    EXPECT_TRUE(snapshot(out) == before) << more[0];
  }
  std::string other = folder.write("other", tiny_text() + "XYZ");
  expect_refused(train_arguments(other, out, 4, {"--resume"}), {"X"});
  expect_refused(train_arguments(data, out, 2, {"--resume"}), {"step 2", "--steps"});
  EXPECT_TRUE(snapshot(out) == before);
  Program wide(train_arguments(data, folder / "wide", 2, {"--width", "32", "--init-from", out}));
  EXPECT_EQ(wide.wait(), 2);
  for (const char* tensor : {"wte.weight: given (10, 16), the module has (10, 32)", "ln_f.bias"})
    EXPECT_NE(wide.err().find(tensor), std::string::npos) << "all that differs is listed: " << wide.err();
  EXPECT_FALSE(fs::exists(folder / "wide"));
}

TEST(Refusals, ADamagedCheckpointIsNeitherSampledNorEvaluatedNorResumed) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  run(train_arguments(data, out, 4, {"--stop-after", "2"}));
  std::string checkpoint = newest_checkpoint(out);
  for (std::string name : {"model.safetensors", "optimizer.safetensors"}) {
    std::string path = checkpoint + "/" + name, whole = bytes_of_file(path), damaged = whole;
    damaged[damaged.size() - 5] ^= 1;
    std::ofstream(path, std::ios::binary) << damaged;
    std::string before = snapshot(out);
    expect_refused(train_arguments(data, out, 4, {"--resume"}), {path, "damaged"});
    expect_refused({"sample", "--run", out}, {path, "damaged"});
    expect_refused({"eval", "--run", out, "--data", data}, {path, "damaged"});
    EXPECT_TRUE(snapshot(out) == before);
    std::ofstream(path, std::ios::binary) << whole;
  }
  fs::remove_all(checkpoint);
  expect_refused(train_arguments(data, out, 4, {"--resume"}), {fs::path(checkpoint).filename()});
  expect_refused({"sample", "--run", folder / "none"}, {folder / "none"});
  expect_refused({"sample", "--run", folder.path()}, {folder.path(), "checkpoint"});
}

TEST(Refusals, AFileBeyondTheLimitOfTheShellIsAnError) {
  TempFolder folder;
  const std::string data = folder.write("t.txt", tiny_text());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{8192, before.rlim_max};  // as `ulimit -f` says, of which a signal comes
  setrlimit(RLIMIT_FSIZE, &small);
  Program program(train_arguments(data, folder / "run", 2, {"--width", "32"}));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(program.wait(), 2) << program.err();
  EXPECT_NE(program.err().find("File too large"), std::string::npos) << program.err();
}

TEST(Refusals, ALossThatIsNotANumberStopsBeforeTheUpdate) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  // An absurd rate overflows the weights within a few updates.
  expect_refused(
      train_arguments(data, out, 50, {"--lr", "1e38", "--min-lr", "0", "--save-every", "1", "--clip", "0"}),
      {"step", "first bad tensor"});
  for (const auto& [name, tensor] : train::load_checkpoint(out, true).parameters)
    for (double value : tensor.to_vector<double>()) ASSERT_TRUE(std::isfinite(value)) << name;
}

}  // namespace
}  // namespace reprise::apps
