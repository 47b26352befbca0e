// The character tokenizer and its file.
#include "reprise/io/text/char_tokenizer.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

size_t count_entries(const std::string& text, const std::string& path) {
  JsonReader json(text, path);
  size_t count = 0;
  json.array([&] {
    json.skip();
    ++count;
  });
  return std::min<size_t>(count, 0x110000);  // there are no more characters
}

}  // namespace

CharTokenizer::CharTokenizer(std::u32string characters)
    : characters_(std::move(characters)), ascii_ids_(128, -1) {
  for (size_t id = 0; id < characters_.size() && characters_[id] < 128; ++id) {
    ascii_ids_[characters_[id]] = int32_t(id);
  }
}

CharTokenizer CharTokenizer::from_text(std::string_view text) {
  check(!text.empty(), "char_tokenizer: the text is empty");
  check_utf8(text, "char_tokenizer");
  std::vector<bool> seen(0x110000);
  for (size_t position = 0; position < text.size();) seen[next_code_point(text, position)] = true;
  std::u32string characters;
  for (size_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) characters += char32_t(c);
  }
  return CharTokenizer(std::move(characters));
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  std::string text = read_file(path);
  JsonReader json(text, path);
  std::u32string characters;
  characters.reserve(count_entries(text, path));
  json.array([&] {
    size_t offset = json.offset(), position = 0;
    std::string entry = json.string();
    char32_t c = entry.empty() ? 0 : next_code_point(entry, position);
    check(!entry.empty() && position == entry.size(), "char_tokenizer: ", path, ": the entry at byte ",
          offset, " is not one character");
    check(characters.empty() || c > characters.back(), "char_tokenizer: ", path, ": the entry at byte ",
          offset, " is out of order");
    characters += c;
  });
  json.end();
  check(!characters.empty(), "char_tokenizer: ", path, ": the vocabulary is empty");
  return CharTokenizer(std::move(characters));
}

void CharTokenizer::save_files(const std::string& folder) const {
  std::string text = "[";
  for (size_t i = 0; i < characters_.size(); ++i) {
    std::string character;
    append_utf8(character, characters_[i]);
    text += (i == 0 ? "" : ", ") + json_quote(character);
  }
  write_file(folder + "/vocab.json", text + "]\n");
}

int32_t CharTokenizer::find(char32_t character) const {
  if (character < 128) return ascii_ids_[character];
  auto found = std::lower_bound(characters_.begin(), characters_.end(), character);
  bool known = found != characters_.end() && *found == character;
  return known ? int32_t(found - characters_.begin()) : -1;
}

void CharTokenizer::refuse_missing(std::string_view text, size_t position, const TextOrigin& origin) const {
  constexpr int64_t most_named = 12;
  std::vector<bool> seen(0x110000);
  const std::string place = origin.describe(position);
  std::string named;
  int64_t count = 0;
  while (position < text.size()) {
    const char32_t character = next_code_point(text, position);
    if (find(character) >= 0 || seen[character]) continue;
    seen[character] = true;
    if (++count > most_named) continue;
    named += (count > 1 ? ", " : "") + describe_code_point(character) + (count > 1 ? "" : " " + place);
  }
  if (count > most_named) named += reprise::detail::join(" and ", count - most_named, " more");
  fail("char_tokenizer: ", named, count > 1 ? " are" : " is", " not in the vocabulary of ", vocab_size(),
       " characters");
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text, const TextOrigin& origin) const {
  check_utf8(text, origin, "char_tokenizer");
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    size_t start = position;
    char32_t character = next_code_point(text, position);
    int32_t id = find(character);
    if (id < 0) refuse_missing(text, start, origin);
    ids.push_back(id);
  }
  return ids;
}

std::string CharTokenizer::decode(std::span<const int32_t> ids) const {
  check_ids(ids, vocab_size(), "char_tokenizer");
  std::string text;
  for (int32_t id : ids) append_utf8(text, characters_[size_t(id)]);
  return text;
}

}  // namespace reprise::io
