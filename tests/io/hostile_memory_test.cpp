// Files made to cost memory: whatever they hold, reading takes at most twice their bytes and 1 MiB.
// labels: slow
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/io/json.h"
#include "reprise/io/run_log.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/text/char_tokenizer.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/utf8.h"
#include "reprise/tests/io/memory_counter.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::MemoryCounter;
using testing::TempFolder;

constexpr size_t file_bytes = 5 << 19;  // large beside the 1 MiB that is free

// Expects `read` to keep to the promise for files of `bytes`, and to end as `is_fine` says: without an Error
// or with one.
template <class Read>
void expect_modest(const std::string& what, size_t bytes, bool is_fine, Read&& read) {
  MemoryCounter counter;
  std::string message;
  try {
    read();
  } catch (const Error& error) { message = error.what(); }
  EXPECT_EQ(message.empty(), is_fine) << what << ": " << message;
  EXPECT_LT(message.size(), 1000u) << what;
  EXPECT_LE(counter.peak(), int64_t(2 * bytes) + (1 << 20))
      << what << ": " << double(counter.peak()) / double(bytes) << " times the file";
}

// `entry(i)` for i = 0, 1, ..., separated by commas, until they make `file_bytes`.
template <class Entry>
std::string many(Entry&& entry) {
  std::string text;
  for (size_t i = 0; text.size() < file_bytes; ++i) text.append(i == 0 ? "" : ",").append(entry(i));
  return text;
}

void expect_modest_header(const std::string& what, const std::string& header, bool is_fine) {
  TempFolder folder;
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  std::string path = folder.write("x", bytes + header);
  expect_modest(what, 8 + header.size(), is_fine, [&] {
    SafetensorsFile file(path);
    for (const SafetensorInfo& info : file.tensors()) EXPECT_EQ(info.begin, 0u);
  });
}

TEST(HostileMemory, SafetensorsHeaders) {
  std::string nothing = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  auto tensors = [&](auto&& name) {
    return "{" + many([&](size_t i) { return "\"" + name(i) + "\":" + nothing; }) + "}";
  };
  expect_modest_header("many tensors", tensors([](size_t i) { return std::to_string(i); }), true);
  expect_modest_header("tensors of one name", tensors([](size_t) { return std::string("a"); }), false);
  expect_modest_header("names that are escaped",
                       tensors([](size_t i) { return "\\u0061\\n" + std::to_string(i); }), true);
  std::string wide = R"({"dtype":"U8","shape":[0,1,1,1,1,1,1,1],"data_offsets":[0,0]})";
  expect_modest_header("many dimensions",
                       "{" + many([&](size_t i) { return "\"" + std::to_string(i) + "\":" + wide; }) + "}",
                       true);
  std::string name(file_bytes, 'n');
  expect_modest_header("one long name", "{\"" + name + "\":" + nothing + "}", true);
  expect_modest_header("a long name of escapes",
                       "{\"" + many([](size_t) { return std::string("\\n"); }) + "\":1}", false);
  auto metadata = [](const std::string& entries) { return "{\"__metadata__\":{" + entries + "}}"; };
  expect_modest_header("much metadata",
                       metadata(many([](size_t i) { return "\"" + std::to_string(i) + "\":\"\""; })), false);
  expect_modest_header("long metadata", metadata("\"k\":\"" + name + "\""), true);
  expect_modest_header("a long key of metadata", metadata("\"" + name + "\":\"\""), true);
  expect_modest_header("a long dtype", "{\"a\":{\"dtype\":\"" + name + "\"}}", false);
  expect_modest_header("a long key", "{\"a\":{\"" + name + "\":1}}", false);
  expect_modest_header("many offsets",
                       "{\"a\":{\"data_offsets\":[" + many([](size_t) { return "0"; }) + "]}}", false);
  expect_modest_header("many sizes", "{\"a\":{\"shape\":[" + many([](size_t) { return "0"; }) + "]}}", false);
}

std::string all_bytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte)
    text += json_quote(bytes_to_alphabet(std::string(1, char(byte)))) + ":" + std::to_string(byte) + ",";
  return text;
}

// Number i in base 62.
std::string short_name(size_t i) {
  constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string name;
  for (; i > 0 || name.size() < 2; i /= 62) name += digits[i % 62];
  return name;
}

void expect_modest_vocabulary(const std::string& what, const std::string& vocab, const std::string& merges,
                              bool is_fine) {
  TempFolder folder;
  std::string vocab_path = folder.write("vocab.json", vocab),
              merges_path = folder.write("merges.txt", merges);
  expect_modest(what, vocab.size() + merges.size(), is_fine, [&] { Gpt2Bpe(vocab_path, merges_path); });
}

TEST(HostileMemory, Vocabularies) {
  size_t tokens = 0;
  std::string vocab = "{" + all_bytes() + many([&](size_t i) {
                        ++tokens;
                        return "\"" + short_name(i) + "\":" + std::to_string(256 + i);
                      }) +
                      "}";
  expect_modest_vocabulary("many tokens", vocab, "", true);
  std::string merges;
  for (size_t i = 0; i < tokens; ++i) {
    std::string name = short_name(i);
    merges += name.substr(0, 1) + " " + name.substr(1) + "\n";
  }
  expect_modest_vocabulary("many merges", vocab, merges, true);
  expect_modest_vocabulary("tokens of one name",
                           "{" + many([](size_t i) { return "\"a\":" + std::to_string(i); }) + "}", "",
                           false);
  expect_modest_vocabulary("tokens of one id",
                           "{" + many([](size_t i) { return "\"" + short_name(i) + "\":0"; }) + "}", "",
                           false);
  expect_modest_vocabulary("tokens of one name and id", "{" + many([](size_t) { return "\"\":0"; }) + "}", "",
                           false);
  std::string name(file_bytes, 'n');
  expect_modest_vocabulary("a long token", "{" + all_bytes() + "\"" + name + "\":256}", "", false);
  std::string small = "{" + all_bytes() + "\"ab\":256}";
  expect_modest_vocabulary("one merge, again and again", small, many([](size_t) { return "\na b\n"; }),
                           false);
  expect_modest_vocabulary("a long merge", small, "a " + name, false);
  expect_modest_vocabulary("many empty lines", small, std::string(file_bytes, '\n'), true);
  expect_modest_vocabulary("many spaces", small, std::string(file_bytes, ' '), false);
}

TEST(HostileMemory, CharacterVocabularies) {
  TempFolder folder;
  auto expect = [&](const std::string& what, const std::string& text, bool is_fine) {
    std::string path = folder.write("vocab.json", text);
    expect_modest(what, text.size(), is_fine, [&] { CharTokenizer::load(path); });
  };
  std::string every = "[";
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string character;
    append_utf8(character, c);
    every += json_quote(character) + ",";
  }
  every.back() = ']';
  expect("every character there is", every, true);
  expect("one character, again and again", "[" + many([](size_t) { return "\"a\""; }) + "]", false);
  expect("a long entry", "[\"" + std::string(file_bytes, 'a') + "\"]", false);
}

TEST(HostileMemory, RunLogs) {
  TempFolder folder;
  auto expect = [&](const std::string& what, const std::string& text) {
    std::string path = folder.write("metrics.jsonl", text);
    expect_modest(what + ", read", text.size(), true, [&] {
      for (const RunRecord& record : read_run_log(path)) EXPECT_GE(record.step, 0);
    });
    expect_modest(what + ", gone on with", text.size(), true, [&] { RunLog::resume(path, 1); });
  };
  auto lines = [](const std::string& line) {
    std::string text;
    while (text.size() < file_bytes) text += line + "\n";
    return text;
  };
  expect("short records", lines("{\"step\":1}"));
  expect("losses", lines("{\"step\":1,\"loss\":1}"));
  expect("records with many values",
         lines("{\"step\":2," + many([](size_t) { return "\"\":1"; }).substr(0, 15999) + "}"));
  expect("one long line", std::string(file_bytes, '['));
  expect("zeros", std::string(file_bytes, '\0'));
}

TEST(HostileMemory, Json) {
  std::string text = "[\"" + many([](size_t) { return std::string("\\u0001x"); }) + "\"]";
  expect_modest("a string of escapes", text.size(), true, [&] {
    JsonReader json(text, "x");
    json.skip();
  });
}

}  // namespace
}  // namespace reprise::io
