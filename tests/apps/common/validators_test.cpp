// Numbers as options take them: strictly.
#include "reprise/apps/common/validators.h"

#include <gtest/gtest.h>

#include "reprise/core/error.h"

namespace reprise::apps {
namespace {

bool takes(const CLI::Validator& validator, std::string text) { return validator(text).empty(); }

TEST(WholeFrom, TakesDecimalDigitsAndNothingElse) {
  for (const char* text : {"1", "42", "9223372036854775807", "007"})
    EXPECT_TRUE(takes(whole_from(1), text)) << text;
  for (const char* text : {"", " 5", "5 ", "+5", "0x10", "1e3", "1.0", "-1", "0", "9223372036854775808",
                           "18446744073709551616", "nan", "1,000", "1'000", "five"})
    EXPECT_FALSE(takes(whole_from(1), text)) << text;
  EXPECT_FALSE(takes(whole_from(1, 10), "11"));
  EXPECT_TRUE(takes(whole_from(-5), "-5"));
}

TEST(WholeFrom, ALeadingZeroIsNotOctal) {
  std::string text = "010";
  EXPECT_EQ(whole_from(1)(text), "");
  EXPECT_EQ(text, "10");
}

TEST(Numbers, AreFiniteDecimalsInTheirRange) {
  for (const char* text : {"0", "0.5", "1e-3", ".5", "5."}) EXPECT_TRUE(takes(number_from_0(), text)) << text;
  for (const char* text : {"", "nan", "-nan", "inf", "-inf", "1e400", "-1", "0x1p3", " 1", "+1", "1,5", "1e"})
    EXPECT_FALSE(takes(number_from_0(), text)) << text;
  EXPECT_TRUE(takes(probability(), "0"));
  EXPECT_FALSE(takes(probability(), "1"));
  EXPECT_FALSE(takes(fraction(), "0"));
  EXPECT_FALSE(takes(fraction(), "nan"));
  EXPECT_FALSE(takes(fraction(), "1"));
  EXPECT_FALSE(takes(above_0_to_1(), "0"));
  EXPECT_TRUE(takes(above_0_to_1(), "1"));
  EXPECT_FALSE(takes(above_0_to_1(), "1.0000001"));
}

TEST(ParsedBy, ComplainsWithTheErrorOfTheParser) {
  auto validator = parsed_by([](std::string_view text) { check(text == "a", "no: ", text); });
  std::string good = "a", bad = "b";
  EXPECT_EQ(validator(good), "");
  EXPECT_EQ(validator(bad), "no: b");
}

}  // namespace
}  // namespace reprise::apps
