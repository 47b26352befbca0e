// eos_token_id of the files that lie beside published weights, and tokenizers that keep them.
#include "reprise/io/text/end_tokens.h"

#include "reprise/io/text/char_tokenizer.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;
using Ids = std::vector<int32_t>;

TEST(EndTokens, AreReadFromEitherFile) {
  struct Case {
    const char *generation, *config;  // null: there is no such file
    Ids want;
  };
  for (const auto& [generation, config, want] : {
           Case{nullptr, nullptr, {}},
           Case{nullptr, R"({"eos_token_id": 50256})", {50256}},
           Case{R"({"bos_token_id": 1, "eos_token_id": [128001, 128008, 128009, 128001], "top_p": 0.9})",
                R"({"eos_token_id": 128001})",
                {128001, 128008, 128009}},
           Case{R"({"eos_token_id": null})", R"({"rope": {"eos_token_id": 4}, "eos_token_id": [2]})", {2}},
           Case{R"({"temperature": 1})", R"({"eos_token_id": [-1, 7, 4294967296]})", {7}},
           Case{"{}", "{}", {}},
       }) {
    TempFolder folder;
    if (generation) folder.write("generation_config.json", generation);
    if (config) folder.write("config.json", config);
    EXPECT_EQ(read_end_tokens(folder.path()), want)
        << (generation ? generation : "") << (config ? config : "");
  }
}

TEST(EndTokens, DamagedFilesAreNamed) {
  TempFolder folder;
  folder.write("config.json", R"({"eos_token_id": "two"})");
  expect_error([&] { read_end_tokens(folder.path()); }, {"config.json", "byte 17"});
  folder.write("generation_config.json", R"({"eos_token_id": [1, 2.5]})");
  expect_error([&] { read_end_tokens(folder.path()); }, {"generation_config.json", "byte 21"});
}

TEST(EndTokens, AreWrittenAsTransformersReadsThem) {
  EXPECT_EQ(end_tokens_json({}), "null");
  EXPECT_EQ(end_tokens_json({5}), "5");
  EXPECT_EQ(end_tokens_json({5, 0}), "[5, 0]");
}

TEST(EndTokens, StayWithTheirTokenizer) {
  TempFolder folder;
  CharTokenizer::from_text("abc").save(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "generation_config.json")) << "there are none to keep";
  EXPECT_EQ(load_tokenizer(folder.path())->end_tokens(), Ids());
  folder.write("generation_config.json", R"({"eos_token_id": [2, 0]})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->end_tokens(), (Ids{2, 0}));
  TempFolder other;
  tokenizer->save(other.path());
  EXPECT_EQ(load_tokenizer(other.path())->end_tokens(), (Ids{2, 0}));
  EXPECT_EQ(load_tokenizer(other.path(), {1})->end_tokens(), Ids{1}) << "what the caller names goes first";
}

}  // namespace
}  // namespace reprise::io
