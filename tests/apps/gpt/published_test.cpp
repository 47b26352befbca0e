// Weights as Hugging Face has them, in a folder with config.json: sampled, evaluated, trained on, and written back.
// labels: end-to-end
#include "reprise/io/safetensors.h"
#include "reprise/io/text/tokenizer.h"
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

void convert(const std::string& from, const std::string& to, const std::string& out) {
  Program program({from, "--to", to, "--out", out}, "", convert_program());
  EXPECT_EQ(program.wait(), 0) << program.err();
}

// A run, and its weights as Hugging Face has them beside its tokenizer.
struct Published : ::testing::Test {
  Published() {
    run(train_arguments(data, folder / "run", 4));
    convert(folder / "run", "hf", hf);
    fs::copy(folder / "run/tokenizer", hf + "/tokenizer");
  }
  // Without the sizes that `train_arguments` gives.
  Arguments start(const std::string& out, const Arguments& more = {}) const {
    Arguments all = {"train", "--data",      data, "--out",          folder / out, "--steps",
                     "1",     "--batch",     "2",  "--lr",           "0",          "--min-lr",
                     "0",     "--threads",   "1",  "--eval-batches", "2",          "--sample-tokens",
                     "2",     "--init-from", hf};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  TempFolder folder;
  const std::string data = folder.write("text", tiny_text()), hf = folder / "hf";
};

TEST_F(Published, IsSampledAndEvaluatedAsItsRunIs) {
  const Arguments sample = {"sample", "--prompt", "a", "--sample-tokens", "12", "--run"};
  const Arguments eval = {"eval", "--data", data, "--run"};
  for (const Arguments& arguments : {sample, eval}) {
    Arguments of_run = arguments, of_folder = arguments, of_file = arguments;
    of_run.push_back(folder / "run");
    of_folder.push_back(hf);
    of_file.push_back(hf + "/model.safetensors");
    const std::string want = run(of_run);
    EXPECT_FALSE(want.empty());
    EXPECT_EQ(run(of_folder), want);
    EXPECT_EQ(run(of_file), want);
  }
  expect_refused({"eval", "--run", hf}, {"--data is missing"});
}

TEST_F(Published, GivesATrainedModelItsSizes) {
  run(start("next"));
  const train::Checkpoint next = train::load_checkpoint(folder / "next", false),
                          first = train::load_checkpoint(folder / "run", false);
  for (const char* entry : {"layers", "heads", "width", "context", "vocab_size", "bias"})
    EXPECT_EQ(next.model.at(entry), first.model.at(entry)) << entry;
  ASSERT_EQ(next.parameters.size(), first.parameters.size());
  for (size_t i = 0; i < next.parameters.size(); ++i)
    EXPECT_TRUE(same_bits(next.parameters[i].second, first.parameters[i].second)) << next.parameters[i].first;
  // The run keeps what it took: it goes on without the weights that it started from.
  fs::rename(hf, folder / "gone");
  run({"train", "--resume", "--out", folder / "next", "--steps", "2"});
  convert(folder / "next", "hf", folder / "back");
  EXPECT_EQ(train::load_checkpoint(folder / "next", false).step, 2);
  EXPECT_EQ(bytes_of_file(folder / "back/config.json"), bytes_of_file(folder / "gone/config.json"));
}

// Of the characters' numbers, two: in the next run, and there and back.
TEST_F(Published, KeepsTheTokensThatEndATextInARunAndWhereItIsConverted) {
  const auto tokenizer = io::load_tokenizer(hf + "/tokenizer");
  const auto written_by = [&](const std::string& from) {
    return run({"sample", "--prompt", "a", "--temperature", "0", "--sample-tokens", "40", "--run", from});
  };
  const std::string whole = written_by(hf);
  const size_t end = whole.find_first_not_of('a');  // some other character that it writes
  ASSERT_LT(end, whole.size() - 1) << whole;
  const int32_t id = tokenizer->encode(whole.substr(end, 1))[0];
  const std::string ids = "[3000, " + std::to_string(id) + "]";
  std::ofstream(hf + "/generation_config.json") << "{\"eos_token_id\": " << ids << "}";
  const std::string want = whole.substr(0, end) + "\n";
  EXPECT_EQ(written_by(hf), want);
  EXPECT_EQ(written_by(hf + "/model.safetensors"), want);
  run(start("next"));
  EXPECT_EQ(written_by(folder / "next"), want);
  run({"train", "--resume", "--out", folder / "next", "--steps", "2"});
  EXPECT_EQ(written_by(folder / "next"), want);

  convert(hf, "reprise", folder / "reprise");
  fs::copy(folder / "run/tokenizer", folder / "reprise/tokenizer");
  EXPECT_EQ(written_by(folder / "reprise"), want);
  for (const char* from : {"next", "reprise"}) {
    const std::string back = folder / (std::string(from) + "_back");
    convert(folder / from, "hf", back);
    EXPECT_NE(bytes_of_file(back + "/config.json").find("\"eos_token_id\": " + ids), std::string::npos)
        << from;
  }
}

TEST_F(Published, KeepsTheFirstPositionsForAShorterContext) {
  run(start("short", {"--context", "5"}));
  const train::Checkpoint shorter = train::load_checkpoint(folder / "short", false),
                          whole = train::load_checkpoint(folder / "run", false);
  for (size_t i = 0; i < whole.parameters.size(); ++i) {
    const auto& [name, tensor] = whole.parameters[i];
    const Tensor want = name == "wpe.weight" ? tensor.slice(0, 0, 5).contiguous() : tensor;
    EXPECT_TRUE(same_bits(shorter.parameters[i].second, want)) << name;
  }
}

TEST_F(Published, RefusesOptionsThatContradictIt) {
  const auto refused = [&](const Arguments& more) {
    Program program(start("no", more));
    EXPECT_EQ(program.wait(), 2);
    EXPECT_FALSE(fs::exists(folder / "no"));
    return program.err();
  };
  EXPECT_NE(refused({"--heads", "4"}).find("--heads 4: these weights have 2 attention heads"),
            std::string::npos);
  EXPECT_NE(refused({"--context", "9"}).find("wpe.weight: given (8, 16), the module has (9, 16)"),
            std::string::npos);
  EXPECT_NE(refused({"--width", "32"}).find("the module has (10, 32)"), std::string::npos);
  const std::string config = bytes_of_file(hf + "/config.json");
  for (const auto& [from, to, message] :
       {std::tuple{"gelu_new", "relu", "activation_function relu: no such model here"},
        {"\"n_head\": 2", "\"n_head\": 3", "3 heads do not divide a width of 16"}}) {
    std::string other = config;
    ASSERT_NE(other.find(from), std::string::npos) << config;
    other.replace(other.find(from), std::string(from).size(), to);
    std::ofstream(hf + "/config.json") << other;
    EXPECT_NE(refused({}).find(message), std::string::npos) << message;
  }
  fs::remove(
      hf + "/config.json");  // a width of 16 is no multiple of 64, and nothing says how many heads there are
  EXPECT_NE(refused({}).find("--heads: neither the weights nor a config.json say"), std::string::npos);
  run(start("told", {"--heads", "2"}));
}

}  // namespace
}  // namespace reprise::testing
