// GPT-2 BPE on a small vocabulary: merges by rank, round trips, long words, and damaged files.
#include "reprise/io/text/gpt2_bpe.h"

#include <gtest/gtest.h>

#include "reprise/core/random.h"
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;
using Ids = std::vector<int32_t>;

const std::vector<std::pair<std::string, std::string>> merges = {
    {"l", "l"}, {"h", "e"},   {"he", "ll"}, {" ", "w"},       {"hell", "o"},
    {"a", "a"}, {"aa", "aa"}, {"o", "r"},   {"\xc3", "\xa9"}, {"'", "s"}};

// Byte b is id b, merge k is id 256 + k, and the end of text comes last, as in GPT-2.
std::string vocab_json() {
  std::string text = "{";
  for (int byte = 0; byte < 256; ++byte) {
    text += json_quote(bytes_to_alphabet(std::string(1, char(byte)))) + ": " + std::to_string(byte) + ", ";
  }
  for (size_t k = 0; k < merges.size(); ++k) {
    text += json_quote(bytes_to_alphabet(merges[k].first + merges[k].second)) + ": " +
            std::to_string(256 + k) + ", ";
  }
  return text + "\"<|endoftext|>\": " + std::to_string(256 + merges.size()) + "}";
}

std::string merges_txt() {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges)
    text += bytes_to_alphabet(left) + " " + bytes_to_alphabet(right) + "\n";
  return text;
}

Gpt2Bpe small_bpe() {
  TempFolder folder;
  return Gpt2Bpe(folder.write("vocab.json", vocab_json()), folder.write("merges.txt", merges_txt()));
}

// The algorithm as published: join every occurrence of the pair with the earliest merge, until there is none.
Ids reference_word(const std::string& word) {
  std::vector<std::string> parts;
  for (char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t k = 0; k < best; ++k) {
        if (merges[k] == std::make_pair(parts[i], parts[i + 1])) best = k;
      }
    }
    if (best == merges.size()) break;
    std::vector<std::string> joined;
    for (size_t i = 0; i < parts.size(); ++i) {
      bool here = i + 1 < parts.size() && merges[best] == std::make_pair(parts[i], parts[i + 1]);
      joined.push_back(here ? parts[i] + parts[i + 1] : parts[i]);
      i += here;
    }
    parts = joined;
  }
  Ids ids;
  for (const std::string& part : parts) {
    int32_t id = static_cast<unsigned char>(part[0]);
    for (size_t k = 0; k < merges.size(); ++k) {
      if (merges[k].first + merges[k].second == part) id = int32_t(256 + k);
    }
    ids.push_back(id);
  }
  return ids;
}

TEST(Gpt2Bpe, MergesByRank) {
  Gpt2Bpe bpe = small_bpe();
  EXPECT_EQ(bpe.vocab_size(), 267);
  EXPECT_EQ(bpe.encode("hello world"), (Ids{260, 259, 263, 'l', 'd'}));
  EXPECT_EQ(bpe.encode("llama's"), (Ids{256, 'a', 'm', 'a', 265}));
  EXPECT_EQ(bpe.encode("é"), (Ids{264}));
  EXPECT_EQ(bpe.encode(""), Ids{});
}

TEST(Gpt2Bpe, AgreesWithThePublishedAlgorithm) {
  Gpt2Bpe bpe = small_bpe();
  for (uint64_t trial = 0; trial < 300; ++trial) {
    std::string word;
    for (uint64_t i = 0; i < 1 + trial % 23; ++i) word += "helaor"[philox_block(7, trial, i)[0] % 6];
    EXPECT_EQ(bpe.encode(word), reference_word(word)) << word;
  }
}

TEST(Gpt2Bpe, GivesRepeatedWordsTheSameIds) {
  Gpt2Bpe bpe = small_bpe();
  Ids once = bpe.encode(" hello"), thrice = bpe.encode(" hello hello hello");
  ASSERT_EQ(thrice.size(), 3 * once.size());
  for (size_t i = 0; i < thrice.size(); ++i) EXPECT_EQ(thrice[i], once[i % once.size()]);
}

TEST(Gpt2Bpe, DecodesWhatItEncodes) {
  Gpt2Bpe bpe = small_bpe();
  std::string text = "hello wörld \U0001F600\n\t aaaa's <|endoftext|>";
  EXPECT_EQ(bpe.decode(bpe.encode(text)), text);
  EXPECT_EQ(bpe.decode(Ids{0xF0, 0x9F}), "\xF0\x9F");  // half a character stays as it is
}

TEST(Gpt2Bpe, TakesAVeryLongWord) {
  Gpt2Bpe bpe = small_bpe();
  EXPECT_EQ(bpe.encode(std::string(200001, 'a')).size(), 50001u);  // "aaaa" is a token
}

TEST(Gpt2Bpe, TakesTheSpecialTokenOnlyWhenAsked) {
  Gpt2Bpe bpe = small_bpe();
  EXPECT_EQ(bpe.end_of_text(), 266);
  std::string text = "<|endoftext|>hello<|endoftext|>";
  EXPECT_EQ(bpe.encode_with_special(text), (Ids{266, 260, 266}));
  EXPECT_EQ(bpe.encode_with_special("hello"), Ids{260});
  for (int32_t id : bpe.encode(text)) EXPECT_NE(id, 266);
}

TEST(Gpt2Bpe, IsTheSameAfterSavingAndLoading) {
  TempFolder folder;
  small_bpe().save(folder.path());
  std::unique_ptr<Tokenizer> loaded = load_tokenizer(folder.path());
  EXPECT_EQ(loaded->vocab_size(), 267);
  EXPECT_EQ(loaded->encode("hello world's é"), small_bpe().encode("hello world's é"));
}

TEST(Gpt2Bpe, RefusesTextAndIdsOutOfRange) {
  Gpt2Bpe bpe = small_bpe();
  expect_error([&] { bpe.encode("ab\xff"); }, "not UTF-8 at byte 2");
  expect_error([&] { bpe.decode(Ids{1, 267}); }, "id 267", "position 1", "267");
}

TEST(Gpt2Bpe, RefusesDamagedMerges) {
  TempFolder folder;
  std::string vocab = folder.write("vocab.json", vocab_json());
  auto load = [&](std::string_view text) { Gpt2Bpe(vocab, folder.write("merges.txt", text)); };
  load("#version: 0.2\r\nl l\r\n\r\n");  // line ends of another system are no damage
  expect_error([&] { load("#version: 0.2\nl l\nhe\n"); }, "merges.txt", "line 3", "two tokens");
  expect_error([&] { load("l l\nh e l\n"); }, "line 2", "two tokens");
  expect_error([&] { load("l \n"); }, "line 1", "two tokens");
  expect_error([&] { load("l l\nl l\n"); }, "line 2", "twice");
  expect_error([&] { load("z z\n"); }, "line 1", "\"zz\"", "not in the vocabulary");
  expect_error([&] { load("l \u4e00\n"); }, "line 1", "U+4E00");
  expect_error([&] { load("l \xff\n"); }, "line 1", "not UTF-8");
  expect_error([&] { Gpt2Bpe(vocab, folder / "absent.txt"); }, "absent.txt");
  expect_error([&] { load("l " + std::string(70000, 'l') + "\n"); }, "line 1", "a token of 70000 bytes");
  expect_error([&] { load("\x1b[31m z\n"); }, "line 1", "U+001B");
}

TEST(Gpt2Bpe, RefusesDamagedVocabularies) {
  TempFolder folder;
  auto load = [&](const std::string& text) {
    Gpt2Bpe(folder.write("vocab.json", text), folder.write("merges.txt", ""));
  };
  auto with = [](const std::string& entry) { return vocab_json().insert(1, entry); };
  expect_error([&] { load("{}"); }, "vocab.json", "empty");
  expect_error([&] { load("{\"a\": 0}"); }, "no token for byte 0");
  expect_error([&] { load(with("\"zz\": 5, ")); }, "id 5", "two tokens");
  expect_error([&] { load(with("\"zz\": 300, ")); }, "id 300", "gap");
  expect_error([&] { load(with("\"zz\": -1, ")); }, "id -1", "byte 7");
  expect_error([&] { load(with("\"zz\": 999999999999, ")); }, "out of range");
  expect_error([&] { load(with("\"zz\": 1.5, ")); }, "not an integer");
  expect_error([&] { load(with("\"a\": 267, ")); }, "\"a\"", "twice");
  expect_error([&] { load(with("\"a b\": 267, ")); }, "U+0020");
  std::string whole = vocab_json();
  for (size_t length = 0; length < whole.size(); length += 31) {
    EXPECT_THROW(load(whole.substr(0, length)), Error) << length;
  }
}

// As Hugging Face's tokenizers write it; `pairs`: merges as lists of two, as newer versions have them.
std::string tokenizer_json(bool pairs, const std::string& more_model = "", const std::string& more = "") {
  std::string listed;
  for (const auto& [left, right] : merges) {
    const std::string a = bytes_to_alphabet(left), b = bytes_to_alphabet(right);
    listed += (listed.empty() ? "" : ", ") +
              (pairs ? "[" + json_quote(a) + ", " + json_quote(b) + "]" : json_quote(a + " " + b));
  }
  return "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 266, \"content\": \"<|endoftext|>\", "
         "\"special\": true}], "
         "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
         "\"use_regex\": true}, "
         "\"decoder\": {\"type\": \"ByteLevel\"}" +
         more + ", \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null" + more_model +
         ", \"vocab\": " + vocab_json() + ", \"merges\": [" + listed + "]}}";
}

TEST(TokenizerJson, IsTheSameTokenizerAsVocabAndMerges) {
  const Gpt2Bpe want = small_bpe();
  for (bool pairs : {false, true}) {
    TempFolder folder;
    const Gpt2Bpe got(folder.write("tokenizer.json", tokenizer_json(pairs)));
    EXPECT_EQ(got.vocab_size(), want.vocab_size());
    EXPECT_EQ(got.end_of_text(), want.end_of_text());
    for (const char* text : {"hello world", "llama's aaaa \xc3\xa9", "the hell of  it"})
      EXPECT_EQ(got.encode(text), want.encode(text)) << text;
    EXPECT_EQ(load_tokenizer(folder / "")->encode("hello"), want.encode("hello"));
    got.save(folder / "");
    EXPECT_EQ(load_tokenizer(folder / "")->encode("hello world"), want.encode("hello world"));
  }
}

TEST(TokenizerJson, RefusesOtherKindsByName) {
  TempFolder folder;
  auto expect = [&](const std::string& text, const char* part) {
    const std::string path = folder.write("tokenizer.json", text);
    expect_error([&] { Gpt2Bpe bpe(path); }, path, part);
  };
  auto replaced = [](const std::string& from, const std::string& to) {
    std::string text = tokenizer_json(true);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  expect(replaced("\"normalizer\": null", "\"normalizer\": {\"type\": \"Lowercase\"}"), "a normalizer");
  expect(replaced("\"ByteLevel\", \"add", "\"Whitespace\", \"add"), "a pre_tokenizer that is not ByteLevel");
  expect(replaced("\"pre_tokenizer\": {", "\"other\": {"), "a pre_tokenizer that is not ByteLevel");
  expect(replaced("add_prefix_space\": false", "add_prefix_space\": true"), "add_prefix_space");
  expect(replaced("\"BPE\"", "\"Unigram\""), "a model that is no BPE");
  expect(replaced("\"dropout\": null", "\"dropout\": 0.1"), "dropout");
  expect(tokenizer_json(true, ", \"byte_fallback\": true"), "byte_fallback");
  expect(replaced("\"id\": 266", "\"id\": 300"), "added token \"<|endoftext|>\" is not number 300");
  expect(replaced("\"merges\": [", "\"merged\": ["), "no vocab and merges");
  expect(replaced("[\"l\", \"l\"]", "[\"l\"]"), "not two tokens");
  expect(replaced("[\"l\", \"l\"]", "[\"l\", \"l\", \"l\"]"), "not two tokens");
  expect(replaced("[\"l\", \"l\"]", "[\"l\", \"zz\"]"), "is not in the vocabulary");
  const std::string whole = tokenizer_json(false);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    const std::string path = folder.write("tokenizer.json", whole.substr(0, bytes));
    expect_error([&] { Gpt2Bpe bpe(path); }, path);
  }
}

}  // namespace
}  // namespace reprise::io
