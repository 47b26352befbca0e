// JSON: what is read can be written and read again.
#include "reprise/io/json.h"

#include <cmath>

#include "reprise/tests/fuzz/fuzz.h"

using reprise::io::JsonReader;

namespace {

// The next value, written again in one way.
void rewrite(JsonReader& json, std::string& out) {
  switch (json.peek()) {
    case JsonReader::Kind::object:
      out += '{';
      json.object([&](const std::string& key) {
        out += reprise::io::json_quote(key) + ":";
        rewrite(json, out);
        out += ',';
      });
      if (out.back() == ',') out.pop_back();
      out += '}';
      return;
    case JsonReader::Kind::array:
      out += '[';
      json.array([&] { rewrite(json, out), out += ','; });
      if (out.back() == ',') out.pop_back();
      out += ']';
      return;
    case JsonReader::Kind::string:
      out += reprise::io::json_quote(json.string());
      return;
    case JsonReader::Kind::number:
      out += reprise::io::json_number(json.number());
      return;
    case JsonReader::Kind::boolean:
      out += json.boolean() ? "true" : "false";
      return;
    case JsonReader::Kind::null:
      json.null();
      out += "null";
  }
}

std::string rewritten(std::string_view text) {
  JsonReader json(text, "input");
  std::string out;
  rewrite(json, out);
  json.end();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string_view text = reprise::fuzz::text_of(data, bytes);
  bool is_json = reprise::fuzz::reads(bytes, [&] {
    JsonReader json(text, "input");
    json.skip();
    json.end();
  });
  if (!is_json) return 0;
  std::string once;
  try {
    once = rewritten(text);
  } catch (const reprise::Error&) { return 0; }  // a number beyond double
  reprise::fuzz::require(rewritten(once) == once, "JSON changes when it is written and read again");
  return 0;
}
