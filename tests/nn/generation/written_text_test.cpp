// Text that is shown piece by piece: nothing is shown that is not whole or not certain, and in the end nothing is missing.
#include "reprise/nn/generation/written_text.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Pieces = std::vector<std::string>;

struct Written {
  Pieces shown;
  bool ended = false;
};

Written written(const Pieces& pieces, const std::vector<std::string>& stops = {}) {
  Written result;
  WrittenText text(stops, [&](std::string_view piece) { result.shown.emplace_back(piece); });
  for (const std::string& piece : pieces)
    if (!text.add(piece)) {
      result.ended = true;
      break;
    }
  text.finish();
  return result;
}

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

Pieces bytes_of(const std::string& text) {
  Pieces bytes;
  for (char c : text) bytes.emplace_back(1, c);
  return bytes;
}

TEST(WrittenText, ShowsWholeCharacters) {
  EXPECT_EQ(written(bytes_of("aé中\U0001F600b")).shown, (Pieces{"a", "é", "中", "\U0001F600", "b"}));
  EXPECT_EQ(written({"a\xc3", "\xa9z\xe4\xb8"}).shown, (Pieces{"a", "éz", "\xe4\xb8"}))
      << "the rest at the end";
  EXPECT_EQ(written({"\x80", "\x80\x80\x80\x80", "\xff", "x"}).shown,
            (Pieces{"\x80", "\x80\x80\x80\x80", "\xff", "x"}))
      << "what will never be a character is not waited for";
}

// The definition: all before the first occurrence of any stop, wherever pieces are cut.
TEST(WrittenText, EndsBeforeTheFirstOfItsStops) {
  const std::string text = "to be, or not to bee: aab aaab é中";
  const std::vector<std::vector<std::string>> all = {{"bee"}, {"aaab"},      {"be", "or"},
                                                     {"中"},  {"é中", ": "}, {"tot"},
                                                     {""},    {"to"},        {" to bee:", "ot to bee"}};
  for (const std::vector<std::string>& stops : all) {
    size_t end = text.size();
    for (const std::string& stop : stops)
      if (!stop.empty()) end = std::min(end, text.find(stop));
    for (size_t length = 1; length < 12; ++length) {
      Pieces pieces;
      for (size_t at = 0; at < text.size(); at += length) pieces.push_back(text.substr(at, length));
      const Written got = written(pieces, stops);
      EXPECT_EQ(joined(got.shown), text.substr(0, end)) << stops.front() << ", pieces of " << length;
      EXPECT_EQ(got.ended, end < text.size()) << stops.front();
    }
  }
}

TEST(WrittenText, KeepsBackNoMoreThanMayBeginAStop) {
  EXPECT_EQ(written({"a", "b", "c", "a", "x"}, {"abd"}).shown, (Pieces{"abc", "ax"}));
}

// As a tokenizer that drops the space of the first word.
std::string words(std::span<const int32_t> ids) {
  const Pieces table = {" one", " two", ".", "\xc3", "\xa4"};
  std::string text;
  for (int32_t id : ids) text += table[size_t(id)];
  return text.starts_with(' ') ? text.substr(1) : text;
}

TEST(WrittenTokens, HaveTheTextThatTheyHaveBehindThoseBefore) {
  for (const bool has_prompt : {false, true}) {
    const std::vector<int32_t> prompt = has_prompt ? std::vector<int32_t>{0} : std::vector<int32_t>();
    std::string shown;
    WrittenTokens text(words, prompt, {"two."}, [&](std::string_view piece) { shown += piece; });
    for (int32_t token : {1, 0, 3, 4, 1}) EXPECT_TRUE(text.add(token)) << token;
    EXPECT_EQ(shown, has_prompt ? " two one\xc3\xa4 " : "two one\xc3\xa4 ");
    EXPECT_FALSE(text.add(2));
    EXPECT_FALSE(text.add(0));
    text.finish();
    EXPECT_EQ(shown, has_prompt ? " two one\xc3\xa4 " : "two one\xc3\xa4 ");
  }
}

TEST(WrittenTokens, AddNothingWhereTwoOfThemReadShorterThanOne) {
  auto shorter = [](std::span<const int32_t> ids) { return std::string(ids.size() == 2 ? "b" : "aaa"); };
  std::string shown;
  WrittenTokens text(shorter, std::vector<int32_t>{0}, {}, [&](std::string_view piece) { shown += piece; });
  EXPECT_TRUE(text.add(1));
  EXPECT_TRUE(text.add(2));
  text.finish();
  EXPECT_EQ(shown, "");
}

}  // namespace
}  // namespace reprise
