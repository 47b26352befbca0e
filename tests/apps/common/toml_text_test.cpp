// What is refused in TOML before it is parsed.
#include "reprise/apps/common/toml_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::apps {
namespace {

using testing::expect_error;

TEST(TomlText, ComesBackFromAscii) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += char(byte);
  for (const std::string& text : {all, all + all, std::string("Z"), std::string("ZZ9e"), std::string("Zc3"),
                                  std::string("\u00e9Z\u00e9"), std::string()}) {
    std::string ascii = toml_in_ascii(text);
    EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(), [](char c) { return (c & 0x80) == 0; }));
    EXPECT_EQ(toml_from_ascii(ascii), text);
  }
  EXPECT_EQ(toml_in_ascii("\xEF\xBB\xBF"
                          "a = 1"),
            "a = 1");
  EXPECT_EQ(toml_from_ascii("cut Zc"), "cut Zc");
}

TEST(TomlText, RefusesWhatIsNotUtf8) {
  expect_error([] { check_toml_text("a = 1\nb = '\xC3'", "c.toml"); }, "c.toml", "UTF-8");
}

TEST(TomlText, RefusesMoreThanAConfigHas) {
  std::string keys;
  for (int i = 0; i < 2000; ++i) keys += "a" + std::to_string(i) + "=1\n";
  EXPECT_NO_THROW(check_toml_text(keys, "c"));
  expect_error([&] { check_toml_text(keys + "b=1\n", "c"); }, "c:2001", "more keys");
  expect_error([&] { check_toml_text(std::string(100000, '['), "c"); }, "more keys");
  EXPECT_NO_THROW(check_toml_text("prompt = \"" + std::string(100000, '.') + "\"", "c"));
}

}  // namespace
}  // namespace reprise::apps
