// All is read more than once rather than into containers that grow: whatever the files hold, loading takes at most twice
// their bytes.
#include "reprise/io/text/bpe_files.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"

namespace reprise::io {
namespace {

constexpr size_t longest_token = 65536;  // bytes as written; GPT-2's longest has 256

// The bytes of a token as the files write it. `where` says where it stands, for an Error.
template <class Where>
std::string token_bytes(std::string_view written, Spelling spelling, const Where& where) {
  if (written.size() > longest_token) fail("bpe: ", where(), ": a token of ", written.size(), " bytes");
  if (spelling == Spelling::literal) return std::string(written);
  try {
    return alphabet_to_bytes(written);
  } catch (const Error& error) { fail("bpe: ", where(), ": ", error.what()); }
}

std::string written(std::string_view token, Spelling spelling) {
  return quote(spelling == Spelling::literal ? std::string(token) : bytes_to_alphabet(token));
}

JsonReader reader_of(const JsonPart& part, const std::string& path) { return {part.text, path, part.offset}; }

size_t count_entries(const JsonPart& vocab, const std::string& path) {
  JsonReader json = reader_of(vocab, path);
  size_t count = 0;
  json.object([&](const std::string&) {
    ++count;
    json.integer();
  });
  json.end();
  return count;
}

// Calls `body(id, token, offset of the id)`.
template <class Body>
void for_each_entry(const JsonPart& vocab, Spelling spelling, const std::string& path, Body&& body) {
  JsonReader json = reader_of(vocab, path);
  json.object([&](const std::string& key) {
    size_t offset = json.offset();
    int64_t id = json.integer();
    body(id, token_bytes(key, spelling, [&] { return detail::join(path, ": before byte ", offset); }),
         offset);
  });
}

std::vector<uint32_t> token_sizes(const JsonPart& vocab, Spelling spelling, const std::string& path) {
  constexpr uint32_t unset = UINT32_MAX;
  std::vector<uint32_t> sizes;
  size_t count = count_entries(vocab, path);
  sizes.reserve(count + 1);  // TokenTable needs one more
  sizes.resize(count, unset);
  for_each_entry(vocab, spelling, path, [&](int64_t id, const std::string& token, size_t offset) {
    if (id < 0 || id > INT32_MAX) fail("bpe: ", path, ": id ", id, " at byte ", offset, " is out of range");
    if (size_t(id) >= sizes.size()) {
      fail("bpe: ", path, ": id ", id, " of ", sizes.size(), " tokens leaves a gap");
    }
    if (sizes[size_t(id)] != unset) fail("bpe: ", path, ": id ", id, " stands for two tokens");
    sizes[size_t(id)] = uint32_t(token.size());
  });
  check(!sizes.empty(), "bpe: ", path, ": the vocabulary is empty");
  return sizes;
}

// A token that no merge makes, as it stands in a text.
struct AddedToken {
  std::string text{};
  int64_t id = -1;
  bool is_special = true, takes_context = false;
};

// By their ids.
std::vector<AddedToken> read_added(const JsonPart& added, const std::string& path) {
  std::vector<AddedToken> tokens;
  if (added.text.empty()) return tokens;
  JsonReader json = reader_of(added, path);
  json.array([&] {
    AddedToken& token = tokens.emplace_back();
    json.object([&](const std::string& key) {
      if (key == "content")
        token.text = json.string();
      else if (key == "id")
        token.id = json.integer();
      else if (key == "special")
        token.is_special = json.boolean();
      else if (key == "lstrip" || key == "rstrip" || key == "single_word")
        token.takes_context = json.boolean() || token.takes_context;
      else
        json.skip();
    });
    check(token.is_special || !token.takes_context, "bpe: ", path, ": added token ", quote(token.text),
          " is found by what stands beside it: no such tokenizer here");
  });
  std::ranges::sort(tokens, {}, &AddedToken::id);
  const auto twin = std::ranges::adjacent_find(tokens, {}, &AddedToken::id);
  check(twin == tokens.end(), "bpe: ", path, ": two added tokens have the id ",
        twin == tokens.end() ? 0 : twin->id);
  return tokens;
}

// Of the vocabulary, and of added tokens behind it.
TokenTable read_tokens(const JsonPart& vocab, Spelling spelling, const std::vector<AddedToken>& added,
                       const std::string& path) {
  std::vector<uint32_t> sizes = token_sizes(vocab, spelling, path);
  const size_t of_vocabulary = sizes.size();
  for (const AddedToken& token : added)
    if (token.id == int64_t(sizes.size())) sizes.push_back(uint32_t(token.text.size()));
  TokenTable tokens(std::move(sizes));
  for_each_entry(vocab, spelling, path,
                 [&](int64_t id, const std::string& token, size_t) { tokens.set(size_t(id), token); });
  for (const AddedToken& token : added)
    if (token.id >= int64_t(of_vocabulary) && token.id < int64_t(tokens.size()))
      tokens.set(size_t(token.id), token.text);
  return tokens;
}

// Calls `body(left, right, where)`: of "a b" and of ["a", "b"], which newer files have.
template <class Body>
void for_each_merge(const JsonPart& merges, const std::string& path, Body&& body) {
  JsonReader json = reader_of(merges, path);
  json.array([&] {
    const size_t offset = json.offset();
    auto where = [&] { return detail::join(path, ": byte ", offset); };
    if (json.peek() == JsonReader::Kind::string) {
      const std::string pair = json.string();
      return body(std::string_view(pair), where);
    }
    std::string pair;
    size_t parts = 0;
    json.array([&] { pair += (parts++ == 0 ? "" : " ") + json.string(); });
    body(std::string_view(pair), where);
  });
}

// Adds "a b".
template <class Where>
void add_merge(BpeTables& tables, const TokenIndex& index, std::string_view pair, Spelling spelling,
               const Where& where) {
  size_t space = pair.find(' ');
  bool is_pair = space != std::string_view::npos && space > 0 && space + 1 < pair.size() &&
                 pair.find(' ', space + 1) == std::string_view::npos;
  if (!is_pair) fail("bpe: ", where(), ": not two tokens with a space between");
  std::string left = token_bytes(pair.substr(0, space), spelling, where),
              right = token_bytes(pair.substr(space + 1), spelling, where);
  auto known = [&](const std::string& token) {
    int32_t id = index.find(token);
    if (id < 0) fail("bpe: ", where(), ": token ", written(token, spelling), " is not in the vocabulary");
    return id;
  };
  if (tables.merges.size() == tables.merges.most())
    fail("bpe: ", where(), ": more merges than there are ways to cut the tokens in two");
  bool is_new = tables.merges.add({known(left), known(right), known(left + right)});
  if (!is_new) fail("bpe: ", where(), ": the merge stands there twice");
}

void check_twins(const TokenTable& tokens, const TokenIndex& index, Spelling spelling,
                 const std::string& path) {
  if (int32_t twin = index.find_twin(); twin >= 0)
    fail("bpe: ", path, ": token ", written(tokens[size_t(twin)], spelling), " stands there twice");
}

}  // namespace

BpeTables read_bpe(const std::string& vocab_path, const std::string& merges_path) {
  constexpr Spelling spelling = Spelling::byte_alphabet;
  BpeTables tables;
  {
    const std::string text = read_file(vocab_path, largest_bpe_file);
    tables.tokens = read_tokens({text, 0}, spelling, {}, vocab_path);
  }
  const TokenIndex index(tables.tokens);
  check_twins(tables.tokens, index, spelling, vocab_path);
  std::string text = read_file(merges_path, largest_bpe_file);
  auto lines = size_t(std::count(text.begin(), text.end(), '\n')) + 1;
  tables.merges = MergeTable(std::min(lines, tables.tokens.bytes()));
  size_t line_number = 0;
  for (size_t start = 0; start < text.size();) {
    size_t stop = std::min(text.find('\n', start), text.size());
    std::string_view line(text.data() + start, stop - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    start = stop + 1;
    ++line_number;
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    add_merge(tables, index, line, spelling,
              [&] { return detail::join(merges_path, ": line ", line_number); });
  }
  return tables;
}

BpeTables read_bpe(const TokenizerJson& parts, const std::string& path) {
  const Spelling spelling = parts.spelling;
  const std::vector<AddedToken> added = read_added(parts.added, path);
  BpeTables tables{.tokens = read_tokens(parts.vocab, spelling, added, path)};
  const TokenIndex index(tables.tokens);
  check_twins(tables.tokens, index, spelling, path);
  for (const AddedToken& token : added) {
    check(index.find(token.text) == token.id, "bpe: ", path, ": added token ", quote(token.text),
          " is not number ", token.id, " of the vocabulary: no such tokenizer here");
    if (!token.is_special && !token.text.empty()) tables.found_first.push_back(token.text);
  }
  size_t count = 0;
  for_each_merge(parts.merges, path, [&](std::string_view, const auto&) { ++count; });
  tables.merges = MergeTable(std::min(count, tables.tokens.bytes()));
  for_each_merge(parts.merges, path, [&](std::string_view pair, const auto& where) {
    add_merge(tables, index, pair, spelling, where);
  });
  return tables;
}

int32_t id_of(const TokenIndex& index, const std::string& token, const char* what, const std::string& path) {
  const int32_t id = index.find(token);
  check(id >= 0, "bpe: ", path, ": ", what, ' ', quote(token), " is not in the vocabulary");
  return id;
}

}  // namespace reprise::io
