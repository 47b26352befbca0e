// Where a sample ends: at the token that ends a text, at texts that it is told, or when it has its tokens.
// labels: end-to-end
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::testing {
namespace {

// A run whose texts are all "xaé": a token per byte, and one that ends a text.
struct Stops : ::testing::Test {
  Stops() {
    std::string vocabulary = "{", tokens;
    for (int byte = 0; byte < 256; ++byte)
      vocabulary += io::json_quote(io::bytes_to_alphabet(std::string(1, char(byte)))) + ": " +
                    std::to_string(byte) + ", ";
    for (int i = 0; i < 200; ++i)
      for (const char* token : {"x", "a", "\xc3", "\xa9", "\1"})  // each its number, and the end of text 257
        tokens += {token[0], token[0] == 1 ? '\1' : '\0'};
    const std::string data = folder.write("tokens.bin", tokens);
    run(train_arguments(data, out, 100,
                        {"--val-data", data, "--vocab",
                         folder.write("vocab.json", vocabulary + "\"za\": 256, \"<|endoftext|>\": 257}"),
                         "--merges", folder.write("merges.txt", "#version: 0.2\nz a\n"), "--width", "32",
                         "--batch", "8", "--lr", "0.02", "--eval-every", "100"}));
  }
  std::string sample(const Arguments& more) const {
    Arguments all = {"sample", "--run", out, "--temperature", "0", "--sample-tokens", "11"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }

  TempFolder folder;
  const std::string out = folder / "run";
};

TEST_F(Stops, EndsWithItsText) {
  EXPECT_EQ(sample({}), "xaé\n");
  EXPECT_EQ(sample({"--prompt", "xa"}), "xaé\n");
  EXPECT_EQ(sample({"--samples", "2"}), "xaé\n\n---\nxaé\n");
  EXPECT_EQ(sample({"--ignore-eos", "--prompt", "xa"}), "xaé<|endoftext|>xaé<|endoftext|>xa\xc3\n")
      << "eleven tokens, the last of which is half a character";
}

// Llama 3's folders name three; which is the tokenizer's own end, no such file has to say.
TEST_F(Stops, EndsAtEachTokenThatAFileBesideItNames) {
  const std::string config = out + "/tokenizer/generation_config.json";
  const auto with = [&](const std::string& ids, const Arguments& more = {}) {
    std::ofstream(config) << "{\"eos_token_id\": " << ids << "}";
    return sample(more);
  };
  EXPECT_EQ(with("[300, 195]"), "xa\n") << "the first byte of an é is 195";
  EXPECT_EQ(with("97"), "x\n");
  EXPECT_EQ(with("[97, 120]"), "\n");
  EXPECT_EQ(with("[300]"), "xaé\n");
  EXPECT_EQ(with("97", {"--ignore-eos", "--stop", "é"}), "xa\n");
  std::ofstream(config) << "{\"eos_token_id\": true}";
  expect_refused({"sample", "--run", out}, {"generation_config.json"});
}

TEST_F(Stops, EndsBeforeTextsThatItIsTold) {
  EXPECT_EQ(sample({"--stop", "é"}), "xa\n");
  EXPECT_EQ(sample({"--stop", "no", "--stop", "aé"}), "x\n");
  EXPECT_EQ(sample({"--stop", "xa", "--prompt", "xa"}), "xaé\n") << "the prompt is no part of it";
  EXPECT_EQ(sample({"--stop", "é<|end", "--ignore-eos"}), "xa\n");
  expect_refused({"sample", "--run", out, "--stop", ""}, {"--stop"});
}

}  // namespace
}  // namespace reprise::testing
