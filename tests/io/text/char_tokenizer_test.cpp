// Character tokens: ids by code point, round trips and refusals.
#include "reprise/io/text/char_tokenizer.h"

#include <gtest/gtest.h>

#include "reprise/io/file.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(CharTokenizer, SortsByCodePoint) {
  CharTokenizer tokenizer = CharTokenizer::from_text("cab\n\U0001F600é a");
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  EXPECT_EQ(tokenizer.encode("\n abcé\U0001F600"), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(tokenizer.end_of_text().has_value());
}

TEST(CharTokenizer, DecodesWhatItEncodes) {
  std::string text = "Größe 日本";
  CharTokenizer tokenizer = CharTokenizer::from_text(text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(CharTokenizer, NamesAnUnknownCharacter) {
  CharTokenizer tokenizer = CharTokenizer::from_text("abé");
  expect_error([&] { tokenizer.encode("éaz"); }, "U+007A 'z'", "byte 3", "3 characters");
  expect_error([&] { tokenizer.encode("a\u20ac"); }, "U+20AC", "byte 1");
  expect_error([&] { tokenizer.encode("a\n"); }, "U+000A at byte 1");
  expect_error([&] { tokenizer.encode("a\xff"); }, "not UTF-8 at byte 1");
}

TEST(CharTokenizer, NamesAllCharactersThatItLacks) {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abé");
  expect_error([&] { tokenizer.encode("aTbTo T\u20ac"); },
               "char_tokenizer: U+0054 'T' at byte 1, U+006F 'o', U+0020, U+20AC '\u20ac' are not in the "
               "vocabulary of 3 characters");
  expect_error([&] { tokenizer.encode("Zcdefghijklm"); }, "U+0064 'd'", "U+006D 'm' are not");
  expect_error([&] { tokenizer.encode("Zcdefghijklmnoponmca"); }, "U+006D 'm' and 3 more are not");
}

TEST(CharTokenizer, NamesAnIdOutOfRange) {
  CharTokenizer tokenizer = CharTokenizer::from_text("ab");
  expect_error([&] { tokenizer.decode(std::vector<int32_t>{0, 2}); }, "id 2", "position 1");
  expect_error([&] { tokenizer.decode(std::vector<int32_t>{-1}); }, "id -1", "position 0");
}

TEST(CharTokenizer, IsTheSameAfterSavingAndLoading) {
  TempFolder folder;
  std::string text = "\"\\\t\u0001 aé日\U0001F600";
  CharTokenizer::from_text(text).save(folder.path());
  std::unique_ptr<Tokenizer> loaded = load_tokenizer(folder.path());
  EXPECT_EQ(loaded->vocab_size(), CharTokenizer::from_text(text).vocab_size());
  EXPECT_EQ(loaded->encode(text), CharTokenizer::from_text(text).encode(text));
}

TEST(CharTokenizer, RefusesDamagedFiles) {
  TempFolder folder;
  auto load = [&](std::string_view contents) { CharTokenizer::load(folder.write("vocab.json", contents)); };
  expect_error([&] { load("[\"a\", \"bc\"]"); }, "vocab.json", "byte 6", "not one character");
  expect_error([&] { load("[\"a\", \"\"]"); }, "vocab.json", "byte 6", "not one character");
  expect_error([&] { load("[\"b\", \"a\"]"); }, "byte 6", "out of order");
  expect_error([&] { load("[\"a\", \"a\"]"); }, "byte 6", "out of order");
  expect_error([&] { load("[]"); }, "empty");
  expect_error([&] { load("{\"a\":0}"); }, "byte 0");
  expect_error([&] { load("[\"a\""); }, "vocab.json", "ends");
  expect_error([] { CharTokenizer::from_text(""); }, "empty");
}

}  // namespace
}  // namespace reprise::io
