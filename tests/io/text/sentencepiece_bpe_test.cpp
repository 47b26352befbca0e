// SentencePiece's kind of tokenizer.json: ids and texts as the tokenizers library 0.23.3 of Hugging Face gives them.
#include "reprise/io/text/sentencepiece_bpe.h"

#include <gtest/gtest.h>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;

const std::string merges = R"(["▁", "a"], ["▁", "▁"], ["▁▁", "▁▁"], ["a", "b"], ["▁a", "b"], ["b", "c"])";
const std::string old_form =
    R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, )"
    R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}, "pre_tokenizer": null)";

std::string metaspace(const std::string& scheme) {
  return R"("normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")" +
         scheme + R"(", "split": false})";
}

// <unk>, <s>, </s>, the bytes, five characters, and what the merges make, those of `first` before the others.
std::string file(const std::string& how, const std::string& first = "") {
  std::string vocab = R"("<unk>": 0, "<s>": 1, "</s>": 2)";
  int id = 3;
  auto add = [&](const std::string& token) { vocab += ", \"" + token + "\": " + std::to_string(id++); };
  const char digits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  for (const char* character : {"▁", "a", "b", "c", "é"}) add(character);
  if (!first.empty()) add("b▁");
  for (const char* joined : {"▁a", "▁▁", "▁▁▁▁", "ab", "▁ab", "bc"}) add(joined);
  return "{" + how +
         R"(, "added_tokens": [{"id": 1, "content": "<s>"}], "model": {"type": "BPE", "dropout": null, )" +
         R"("unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": {)" + vocab +
         R"(}, "merges": [)" + first + merges + "]}}";
}

TEST(SentencePieceBpe, GivesTheIdsAndTextsOfTheTokenizersLibrary) {
  const Texts texts = {"ab abc", "  a", "é中\n▁a", "    ab  ", " ", "abab"};
  struct Case {
    const char* name;
    std::string how, first;
    std::vector<Ids> ids;
    Texts decoded;
  };
  const Case cases[] = {
      {"old",
       old_form,
       "",
       {{268, 268, 262}, {265, 264}, {259, 263, 231, 187, 176, 13, 264}, {266, 268, 265}, {265}, {268, 267}},
       {"ab abc", "  a", "é中\n a", "    ab  ", " ", "abab"}},
      {"first",
       metaspace("first"),
       "",
       {{268, 268, 262},
        {259, 264},
        {259, 263, 231, 187, 176, 13, 264},
        {265, 259, 268, 265},
        {259},
        {268, 267}},
       {"ab abc", " a", "é中\n a", "   ab  ", "", "abab"}},
      {"never",
       metaspace("never"),
       "",
       {{267, 268, 262}, {259, 264}, {263, 231, 187, 176, 13, 264}, {265, 259, 268, 265}, {259}, {267, 267}},
       {"ab abc", "  a", "é中\n a", "    ab  ", " ", "abab"}},
      {"words",
       old_form,
       R"(["b", "▁"], )",
       {{265, 264, 268, 262},
        {266, 265},
        {259, 263, 231, 187, 176, 13, 265},
        {267, 265, 264, 259},
        {266},
        {269, 268}},
       {"ab abc", "  a", "é中\n a", "    ab  ", " ", "abab"}},
  };
  for (const Case& one : cases) {
    TempFolder folder;
    const SentencePieceBpe bpe(folder.write("tokenizer.json", file(one.how, one.first)));
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(bpe.encode(texts[i]), one.ids[i]) << one.name << ' ' << i;
      EXPECT_EQ(bpe.decode(one.ids[i]), one.decoded[i]) << one.name << ' ' << i;
    }
    TempFolder saved;
    bpe.save(saved / "");
    EXPECT_EQ(load_tokenizer(saved / "")->encode(texts[0]), one.ids[0]);
  }
}

TEST(SentencePieceBpe, KnowsItsSpecialTokens) {
  TempFolder folder;
  const SentencePieceBpe plain(folder.write("tokenizer.json", file(old_form)));
  EXPECT_EQ(plain.end_of_text(), 2);
  EXPECT_EQ(plain.first_token(), std::nullopt);
  EXPECT_EQ(plain.vocab_size(), 270);
  EXPECT_EQ(plain.encode(""), Ids{});
  EXPECT_EQ(plain.decode(Ids{198, 172}), "é");
  EXPECT_EQ(plain.decode(Ids{198}), "\xc3");  // a part of a character
  const std::string post = R"("post_processor": {"single": [{"SpecialToken": {"id": "<s>"}}]}, )";
  EXPECT_EQ(SentencePieceBpe(folder.write("tokenizer.json", file(post + old_form))).first_token(), 1);
  expect_error([&] { plain.encode("a\xff"); }, "UTF-8");
  expect_error([&] { plain.decode(Ids{270}); }, "id 270 at position 0");
  const std::string word(1'000'000, 'a');
  EXPECT_EQ(plain.decode(plain.encode(word)), word);
}

TEST(SentencePieceBpe, RefusesOtherKindsByName) {
  TempFolder folder;
  auto expect = [&](std::string text, const std::string& from, const std::string& to, const char* part) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const std::string path = folder.write("tokenizer.json", text);
    expect_error([&] { SentencePieceBpe bpe(path); }, path, part);
  };
  expect(file(old_form), "\"byte_fallback\": true", "\"byte_fallback\": false", "without byte_fallback");
  expect(file(old_form), "\"prepend\": \"▁\"", "\"prepend\": \"_\"", "a normalizer that is not NFC");
  expect(file(old_form), "{\"String\": \" \"}", "{\"Regex\": \" \"}", "replaces by a pattern");
  expect(file(old_form), "\"pre_tokenizer\": null", "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}",
         "a pre_tokenizer in a BPE of characters");
  expect(file(metaspace("first")), "\"split\": false", "\"split\": true", "a Metaspace that splits");
  expect(file(metaspace("first")), "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}", "NFC");
  expect(file(old_form), "\"<0x41>\"", "\"<0x4g>\"",
         "the token of a byte \"<0x41>\" is not in the vocabulary");
  expect(file(old_form), "[\"a\", \"b\"]", "[\"a\", \"zz\"]", "token \"zz\" is not in the vocabulary");
  const std::string whole = file(old_form);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 61) {
    const std::string path = folder.write("tokenizer.json", whole.substr(0, bytes));
    expect_error([&] { SentencePieceBpe bpe(path); }, path);
    expect_error([&] { load_tokenizer(folder / ""); }, "tokenizer.json");
  }
}

}  // namespace
}  // namespace reprise::io
