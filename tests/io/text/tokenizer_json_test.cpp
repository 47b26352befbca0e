// tokenizer.json of Llama 3's kind and others: ids as the tokenizers library 0.23.3 of Hugging Face gives them.
#include <gtest/gtest.h>

#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/nfc.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;
using Ids = std::vector<int32_t>;

// Across what some of the patterns split.
const std::vector<std::pair<std::string, std::string>> merges = {
    {"1", "2"},        {"12", "3"},      {"123", "4"},         {" ", " "},
    {"\n", "\n"},      {"!", "\n"},      {"'", "S"},           {" ", "1"},
    {" ", "a"},        {"e", "\n"},      {".", "a"},           {"\xc2", "\xa0"},
    {"\xc2\xa0", "a"}, {"\xe1", "\xa0"}, {"\xe1\xa0", "\x8e"}, {" ", "\xe1\xa0\x8e"}};

const std::string byte_level = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
const std::string byte_level_alone =
    R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
const std::string llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string qwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string split(const std::string& pattern) {
  return "{\"type\": \"Split\", \"pattern\": {\"Regex\": " + json_quote(pattern) +
         "}, \"behavior\": \"Isolated\", \"invert\": false}";
}

std::string sequence(const std::string& first, const std::string& second) {
  return "{\"type\": \"Sequence\", \"pretokenizers\": [" + first + ", " + second + "]}";
}

// Byte b is id b, merge k is id 256 + k; then "zq", which no merge makes, the end of text and the first token.
std::string file(const std::string& pre_tokenizer, const std::string& of_model = "",
                 const std::string& more = "") {
  std::string vocab, listed;
  int id = 0;
  auto add = [&](const std::string& token) {
    vocab += (id ? ", " : "") + json_quote(bytes_to_alphabet(token)) + ": " + std::to_string(id);
    ++id;
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, char(byte)));
  for (const auto& [left, right] : merges) {
    add(left + right);
    listed += (listed.empty() ? "[" : ", [") + json_quote(bytes_to_alphabet(left)) + ", " +
              json_quote(bytes_to_alphabet(right)) + "]";
  }
  add("zq");
  return R"({"added_tokens": [{"id": 274, "content": "<|begin of text|>"}, {"id": 273, "content": "<|end_of_text|>"}], )"
         R"("normalizer": null, "pre_tokenizer": )" +
         pre_tokenizer + more + R"(, "model": {"type": "BPE")" + of_model + ", \"vocab\": {" + vocab +
         "}, \"merges\": [" + listed + "]}}";
}

TEST(TokenizerJson, SplitsAsItsPreTokenizersSay) {
  const std::string a = " 1234 12", b = "zq   a!\n\n\n'S zq", c = "e\n\u00a0a.a\n \u180e";
  const std::string digits = R"({"type": "Digits", "individual_digits": )";
  struct Case {
    const char* name;
    std::string pre_tokenizer, of_model;
    Ids of_a, of_b, of_c;
  };
  const Case cases[] = {{"gpt2",
                         byte_level,
                         "",
                         {32, 258, 32, 256},
                         {122, 113, 259, 264, 33, 260, 10, 39, 83, 32, 122, 113},
                         {101, 10, 267, 97, 46, 97, 10, 271}},
                        {"llama3",
                         sequence(split(llama3), byte_level_alone),
                         R"(, "ignore_merges": true)",
                         {32, 257, 52, 32, 256},
                         {272, 259, 264, 33, 260, 10, 262, 32, 122, 113},
                         {101, 10, 268, 266, 10, 271}},
                        {"qwen2",
                         sequence(split(qwen2), byte_level_alone),
                         "",
                         {32, 49, 50, 51, 52, 32, 49, 50},
                         {122, 113, 259, 264, 33, 260, 10, 262, 32, 122, 113},
                         {101, 10, 268, 266, 10, 271}},
                        {"smollm",
                         sequence(digits + "true}", byte_level),
                         "",
                         {32, 49, 50, 51, 52, 32, 49, 50},
                         {122, 113, 259, 264, 33, 260, 10, 39, 83, 32, 122, 113},
                         {101, 10, 267, 97, 46, 97, 10, 271}},
                        {"digits",
                         sequence(digits + "false}", byte_level),
                         "",
                         {32, 258, 32, 256},
                         {122, 113, 259, 264, 33, 260, 10, 39, 83, 32, 122, 113},
                         {101, 10, 267, 97, 46, 97, 10, 271}},
                        {"gap",
                         sequence(split("34| a"), byte_level_alone),
                         "",
                         {32, 256, 51, 52, 32, 256},
                         {122, 113, 259, 264, 33, 260, 10, 262, 32, 122, 113},
                         {265, 268, 266, 10, 271}}};
  for (const Case& one : cases) {
    TempFolder folder;
    const Gpt2Bpe bpe(folder.write("tokenizer.json", file(one.pre_tokenizer, one.of_model)));
    EXPECT_EQ(bpe.encode(a), one.of_a) << one.name;
    EXPECT_EQ(bpe.encode(b), one.of_b) << one.name;
    EXPECT_EQ(bpe.encode(c), one.of_c) << one.name;
    for (const std::string& text : {a, b, c}) EXPECT_EQ(bpe.decode(bpe.encode(text)), text) << one.name;
    TempFolder saved;
    bpe.save(saved / "");
    EXPECT_EQ(load_tokenizer(saved / "")->encode(b), one.of_b) << one.name;
  }
}

// An e and its accent become one character; a Hangul syllable of two jamos too (tokenizers 0.23.3).
TEST(TokenizerJson, TextIsNormalisedWhereItSaysSo) {
  TempFolder folder;
  std::string text = file(byte_level);
  const std::string none = "\"normalizer\": null", nfc = R"("normalizer": {"type": "NFC"})";
  text.replace(text.find(none), none.size(), nfc);
  const std::string path = folder.write("tokenizer.json", text);
  if (!has_nfc()) return expect_error([&] { Gpt2Bpe bpe(path); }, path, "libutf8proc-dev");
  const Gpt2Bpe bpe(path);
  EXPECT_EQ(bpe.encode("e\u0301\u1100\u1161 12"), (Ids{195, 169, 234, 176, 128, 32, 256}));
  EXPECT_EQ(bpe.encode("\u212b"), (Ids{195, 133}));
  EXPECT_EQ(bpe.encode(""), Ids{});
  std::string marks = "a";
  for (int i = 0; i < 2000; ++i) marks += "\u0301\u0323";
  expect_error([&] { bpe.encode(marks); }, "nfc: more than 1000 combining marks in a row");
  expect_error([&] { bpe.encode("a\xff"); }, "UTF-8");
  TempFolder saved;
  bpe.save(saved / "");
  EXPECT_EQ(load_tokenizer(saved / "")->encode("e\u0301"), (Ids{195, 169}));
  text.replace(text.find("NFC"), 3, "NFD");
  expect_error([&] { Gpt2Bpe other(folder.write("tokenizer.json", text)); }, "a normalizer that is not NFC");
}

TEST(TokenizerJson, AddedTokensStandBehindTheVocabulary) {
  TempFolder folder;
  const std::string post =
      R"(, "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, )"
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin of text|>"}}, )"
      R"({"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<|end_of_text|>"}}]}]})";
  const std::string path = folder.write("tokenizer.json", file(byte_level, "", post));
  const Gpt2Bpe bpe(path);
  EXPECT_EQ(bpe.vocab_size(), 275);
  EXPECT_EQ(bpe.end_of_text(), 273);
  EXPECT_EQ(bpe.first_token(), 274);
  EXPECT_EQ(bpe.decode(Ids{274, 97, 273}), "<|begin of text|>a<|end_of_text|>");
  EXPECT_EQ(bpe.encode_with_special("b<|end_of_text|>b"), (Ids{98, 273, 98}));
  // vocab.json and merges.txt beside it may be those of GPT-2's patterns.
  folder.write("vocab.json", "{}");
  folder.write("merges.txt", "");
  EXPECT_EQ(load_tokenizer(folder / "")->vocab_size(), 275);
  EXPECT_EQ(Gpt2Bpe(folder.write("other.json", file(byte_level))).first_token(), std::nullopt);
}

// As published files have them, which write down each way to cut a token in two.
TEST(TokenizerJson, TakesMoreMergesThanTokens) {
  std::string text = file(byte_level), more_tokens, more_merges;
  auto of = [](int count) { return std::string(size_t(count), 'a'); };
  for (int length = 2; length <= 40; ++length) {
    more_tokens += ", \"" + of(length) + "\": " + std::to_string(271 + length);
    for (int left = 1; left < length; ++left)
      more_merges += "[\"" + of(left) + "\", \"" + of(length - left) + "\"], ";
  }
  const std::string last = "\"zq\": 272";
  text.replace(text.find(last), last.size(), last + more_tokens);
  text.replace(text.find("\"id\": 274"), 9, "\"id\": 313");
  text.replace(text.find("\"id\": 273"), 9, "\"id\": 312");
  const std::string merges_begin = "\"merges\": [";
  text.insert(text.find(merges_begin) + merges_begin.size(), more_merges);
  TempFolder folder;
  const Gpt2Bpe bpe(folder.write("tokenizer.json", text));
  EXPECT_EQ(bpe.decode(bpe.encode(of(100))), of(100));
  EXPECT_LE(bpe.encode(of(100)).size(), 5u);
}

// Before the text is split (tokenizers 0.23.3).
TEST(TokenizerJson, AddedTokensThatAreNotSpecialAreFoundFirst) {
  TempFolder folder;
  std::string text = file(byte_level);
  const std::string special = R"({"id": 274, "content": "<|begin of text|>"})",
                    found = R"({"id": 274, "content": "12 (x", "special": false}, )"
                            R"({"id": 256, "content": "12", "special": false})";
  text.replace(text.find(special), special.size(), found);
  const Gpt2Bpe bpe(folder.write("tokenizer.json", text));
  EXPECT_EQ(bpe.encode("123 12 (x12"), (Ids{256, 51, 32, 274, 256}));
  text.replace(text.find("\"special\": false"), 16, "\"special\": false, \"lstrip\": true");
  expect_error([&] { Gpt2Bpe other(folder.write("tokenizer.json", text)); },
               "found by what stands beside it");
}

TEST(TokenizerJson, RefusesPreTokenizersThatAreNotHere) {
  TempFolder folder;
  auto expect = [&](const std::string& text, const char* part) {
    const std::string path = folder.write("tokenizer.json", text);
    expect_error([&] { Gpt2Bpe bpe(path); }, part);
  };
  expect(file(byte_level_alone), "a pre_tokenizer without its pattern");
  expect(file(split("a")), "a pre_tokenizer that is not ByteLevel");
  expect(file(sequence(byte_level, split("a"))), "a pre_tokenizer behind ByteLevel");
  expect(file(sequence(R"({"type": "Metaspace"})", byte_level)),
         "ByteLevel, Digits or Split by an isolated Regex");
  expect(
      file(sequence(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated"})", byte_level)),
      "ByteLevel, Digits or Split by an isolated Regex");
  expect(file(sequence(R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed"})", byte_level)),
         "ByteLevel, Digits or Split by an isolated Regex");
  expect(file(sequence(split("(a"), byte_level)), "the pattern \"(a\"");
  expect(file(sequence(split("[\\S]"), byte_level)), "has \\S within []");
  expect(file(byte_level, "", R"(, "post_processor": {"single": [{"SpecialToken": {"id": "<s>"}}]})"),
         "the first token \"<s>\"");
  std::string twice = file(byte_level);
  twice.replace(twice.find("274"), 3, "273");
  expect(twice, "two added tokens have the id 273");
  expect(file(byte_level, R"(, "end_of_word_suffix": "</w>")"), "a prefix or suffix of parts of words");
  std::string gap = file(byte_level);
  gap.replace(gap.find("274"), 3, "275");
  expect(gap, "added token \"<|begin of text|>\" is not number 275");
}

}  // namespace
}  // namespace reprise::io
