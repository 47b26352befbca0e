// What is refused in TOML before it is parsed.
#include "reprise/apps/common/toml_text.h"

#include <gtest/gtest.h>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::apps {
namespace {

using testing::expect_error;

TEST(TomlText, TakesAnyCharacterInStringsAndComments) {
  for (const char* text : {"\xEF\xBB\xBF"
                           "a = 1\n",
                           "# \u045F\na = \"\u045F\"\n", "a = '\u045F' # \u045F", "a = \"\\\"\u045F\"\n",
                           "a = \"\"\"\n\u045F \" \"\" \u045F\"\"\"\"\"\nb = 1",
                           "a = '''\u045F'''\n\"\u045F\" = ''\n", "a = \"\""})
    EXPECT_NO_THROW(check_toml_text(text, "c")) << text;
}

TEST(TomlText, RefusesOthersElsewhereWithTheirLine) {
  auto refuses = [](const std::string& text, const std::string& place) {
    expect_error([&] { check_toml_text(text, "c.toml"); }, place, "not ASCII");
  };
  refuses("\u045FQst", "c.toml:1");
  refuses("a = 1\nb\u00e9 = 2", "c.toml:2");
  refuses("a = \"x\" \u3000\n", "c.toml:1");
  refuses("a = \"\"\"x\"\"\"\"\" \u045F", "c.toml:1");
  refuses("a = '\\' \u045F '", "c.toml:1");
  refuses("a = \"\" \u045F", "c.toml:1");
  for (const char* quotes : {"\"\"\"\"\"", "\'\'\'\'\'"})  // in a key: an empty string, then another
    expect_error([&] { check_toml_text(std::string("\nsteps = 10a.") + quotes + "\u0374\n", "c"); }, "c:2",
                 "begin no value");
  refuses("# comment \u2028 b = 1", "c.toml:1");
}

TEST(TomlText, RefusesWhatItWouldTakeForAStringAndTheParserNot) {
  for (const char* text :
       {"a = 1\nb = -'\u045F'", "a = 1\nb = x\"\u045F\"", "a = 1\nb = ''\"\u045F\"", "\nb '\u045F'"})
    expect_error([&] { check_toml_text(text, "c"); }, "c:2", "quotation mark");
  for (const char* text : {"a = 1\nb = -\x01'\u045F'", "\n\x7F\x1F", "\n\v"})
    expect_error([&] { check_toml_text(text, "c"); }, "c:2", "control character");
  for (const char* text : {"a = ['x', \"y\",\r\n\t'z']", "a.'b'.\"c\" = {'d' = 'e'}\r\n\"f\" = 1"})
    EXPECT_NO_THROW(check_toml_text(text, "c")) << text;
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
