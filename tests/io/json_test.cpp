// JSON: what is read, what is refused and where, and that damage of any kind ends in an Error.
#include "reprise/io/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "reprise/core/random.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;

void read_all(std::string_view text) {
  JsonReader json(text, "doc");
  json.skip();
  json.end();
}

std::string read_string(std::string_view text) { return JsonReader(text, "doc").string(); }

TEST(Json, ReadsNestedValues) {
  JsonReader json(R"( {"a": [1, -20 ,3], "b":{"c":null,"d":true}, "e": -1.5e2, "f":[] , "g":{}} )", "doc");
  std::vector<int64_t> integers;
  std::string keys;
  double e = 0;
  json.object([&](const std::string& key) {
    keys += key;
    if (key == "a") {
      json.array([&] { integers.push_back(json.integer()); });
    } else if (key == "e") {
      e = json.number();
    } else {
      json.skip();
    }
  });
  json.end();
  EXPECT_EQ(keys, "abefg");
  EXPECT_EQ(integers, (std::vector<int64_t>{1, -20, 3}));
  EXPECT_EQ(e, -150.0);
}

TEST(Json, ReadsEscapes) {
  EXPECT_EQ(read_string(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_string(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
}

TEST(Json, ReadsIntegersExactly) {
  EXPECT_EQ(JsonReader("9223372036854775807", "doc").integer(), INT64_MAX);
  EXPECT_EQ(JsonReader("-9223372036854775808", "doc").integer(), INT64_MIN);
  expect_error([] { JsonReader("9223372036854775808", "doc").integer(); }, "doc", "out of range");
  expect_error([] { JsonReader("1.0", "doc").integer(); }, "not an integer");
  expect_error([] { JsonReader("1e3", "doc").integer(); }, "not an integer");
}

TEST(Json, RefusesWhatIsNotJson) {
  const char* documents[] = {"",
                             "{",
                             "[1,]",
                             "{\"a\":1,}",
                             "{a:1}",
                             "[1 2]",
                             "01",
                             "-",
                             "1.",
                             ".5",
                             "1e",
                             "+1",
                             "nul",
                             "NaN",
                             "Infinity",
                             "'a'",
                             "\"a",
                             "\"\n\"",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\uD800\"",
                             "\"\\uDC00\"",
                             "\"\\uD800\\u0041\"",
                             "\"\xff\"",
                             "{} {}",
                             "[1]]",
                             "{\"a\" 1}",
                             "{1:2}",
                             "\"\\",
                             "--1"};
  for (const char* document : documents) { EXPECT_THROW(read_all(document), Error) << document; }
}

TEST(Json, SaysWhere) {
  expect_error([] { read_all("[1, 2, x]"); }, "doc", "byte 7");
  expect_error([] { JsonReader("[]x", "doc", 100).integer(); }, "byte 100");
  expect_error([] { read_all("[\"ab\xff\"]"); }, "not UTF-8 at byte 4");
}

TEST(Json, RefusesDeepNesting) {
  read_all(std::string(64, '[') + std::string(64, ']'));
  expect_error([] { read_all(std::string(1000000, '[')); }, "64 deep");
}

TEST(Json, DamageIsNeverWorseThanAnError) {
  const std::string document = R"({"a":[1,2.5e-3,{"b":"x\u00e9\n"}],"c":[true,false,null]})";
  for (size_t length = 0; length < document.size(); ++length) {
    EXPECT_THROW(read_all(document.substr(0, length)), Error) << length;
  }
  for (uint64_t trial = 0; trial < 5000; ++trial) {
    auto draw = philox_block(1, 0, trial);
    std::string damaged = document;
    damaged[draw[0] % damaged.size()] = char(draw[1]);
    damaged[draw[2] % damaged.size()] = char(draw[3]);
    try {
      read_all(damaged);
    } catch (const Error&) {  // the only way it may fail
    }
  }
}

TEST(Json, WritesStringsThatReadBack) {
  std::string all;
  for (char c = 1; c < 127; ++c) all += c;
  all += "\u00e9\U0001F600";
  EXPECT_EQ(read_string(json_quote(all)), all);
  EXPECT_EQ(json_quote("a\"\\\n\x01"), R"("a\"\\\n\u0001")");
}

TEST(Json, WritesNumbersThatReadBack) {
  for (double value : {0.0, -1.5, 0.1, 1e300, 5e-324, 1234567890123456.0, 1.0 / 3}) {
    EXPECT_EQ(JsonReader(json_number(value), "doc").number(), value);
  }
  EXPECT_EQ(json_number(0.001), "0.001");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
}

}  // namespace
}  // namespace reprise::io
