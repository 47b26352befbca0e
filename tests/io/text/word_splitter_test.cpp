// GPT-2's words, by the behaviour of its published encoder.
#include "reprise/io/text/word_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reprise/tests/support/errors.h"

namespace reprise::io {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  WordSplitter().split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

using testing::expect_error;
using Words = std::vector<std::string>;

TEST(WordSplitter, KeepsTheSpaceWithTheWordAfterIt) {
  EXPECT_EQ(words_of("Hello world, 2 b"), (Words{"Hello", " world", ",", " 2", " b"}));
  EXPECT_EQ(words_of("a1 _!?"), (Words{"a", "1", " _!?"}));
}

TEST(WordSplitter, CutsContractionsOffInLowerCaseOnly) {
  EXPECT_EQ(words_of("it's I'll they've"), (Words{"it", "'s", " I", "'ll", " they", "'ve"}));
  EXPECT_EQ(words_of("don't"), (Words{"don", "'t"}));
  EXPECT_EQ(words_of("IT'S"), (Words{"IT", "'", "S"}));
}

TEST(WordSplitter, LeavesTheLastOfManySpacesToTheWord) {
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a \n\nb"), (Words{"a", " \n", "\n", "b"}));
  EXPECT_EQ(words_of("a  "), (Words{"a", "  "}));
}

TEST(WordSplitter, KnowsUnicode) {
  EXPECT_EQ(words_of("émigré 日本語 ½²"), (Words{"émigré", " 日本語", " ½²"}));
  EXPECT_EQ(words_of("a\u00a0b\u3000"), (Words{"a", "\u00a0", "b", "\u3000"}));
  // U+180E has not been a space since Unicode 6.3, and U+001C never was in the property that GPT-2 uses.
  EXPECT_EQ(words_of("a \u180e\x1c"), (Words{"a", " \u180e\x1c"}));
}

TEST(WordSplitter, TakesWordsOfAnyLength) {
  std::string spaces(1000000, ' '), letters(1000000, 'x');
  EXPECT_EQ(words_of(spaces + letters), (Words{spaces.substr(1), " " + letters}));
  EXPECT_EQ(words_of(""), Words{});
}

// A word of alternatives takes a place on the stack for each of them.
TEST(WordSplitter, TakesLongWordsOfAlternatives) {
  const std::string word(200'000, 'a');
  Words words;
  WordSplitter({"(?:a|b)+"}).split(word + " " + word, [&](std::string_view piece) {
    words.emplace_back(piece);
  });
  EXPECT_EQ(words, (Words{word, " ", word}));
}

// By which Oniguruma, as the tokenizers library has it, splits otherwise than PCRE2, or which take characters apart.
TEST(WordSplitter, RefusesWhatIsReadInDifferentWays) {
  for (const char* pattern :
       {"\\w+", "\\W", "\\bx", "\\h", "\\C", "\\X", "\\Kx", "^a", "a$", "(?m)a", "(?s:.)", "(*UCP)a",
        "[a-z&&[^b]]", "[a[bc]]", "[]a]", "[^]a]", "a{,2}", "[\\S]", "a\\"})
    expect_error([&] { WordSplitter splitter({pattern}); }, "word_splitter: the pattern ",
                 "in different ways");
  for (const char* pattern : {"(a", "a)", "[a", "*"})
    expect_error([&] { WordSplitter splitter({pattern}); }, "word_splitter: the pattern ");
}

}  // namespace
}  // namespace reprise::io
