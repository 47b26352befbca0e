// Reading and writing vocab.json and merges.txt. Both are read more than once rather than into containers
// that grow: whatever they hold, loading takes at most twice their bytes.
#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/text/gpt2_bpe.h"

namespace reprise::io {
namespace {

constexpr std::string_view version_line = "#version: 0.2";
constexpr size_t longest_token = 65536;       // bytes as written; GPT-2's longest has 256
constexpr uint64_t largest_file = INT32_MAX;  // ids and offsets have 32 bits

// The bytes of a token as the files write it. `where` says where it stands, for an Error.
template <class Where>
std::string token_bytes(std::string_view written, const Where& where) {
  if (written.size() > longest_token) fail("gpt2_bpe: ", where(), ": a token of ", written.size(), " bytes");
  try {
    return alphabet_to_bytes(written);
  } catch (const Error& error) { fail("gpt2_bpe: ", where(), ": ", error.what()); }
}

std::string written(std::string_view token) { return quote(bytes_to_alphabet(token)); }

size_t count_entries(const std::string& text, const std::string& path) {
  JsonReader json(text, path);
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
void for_each_entry(const std::string& text, const std::string& path, Body&& body) {
  JsonReader json(text, path);
  json.object([&](const std::string& key) {
    size_t offset = json.offset();
    int64_t id = json.integer();
    body(id, token_bytes(key, [&] { return detail::join(path, ": before byte ", offset); }), offset);
  });
}

std::vector<uint32_t> token_sizes(const std::string& text, const std::string& path) {
  constexpr uint32_t unset = UINT32_MAX;
  std::vector<uint32_t> sizes;
  size_t count = count_entries(text, path);
  sizes.reserve(count + 1);  // TokenTable needs one more
  sizes.resize(count, unset);
  for_each_entry(text, path, [&](int64_t id, const std::string& token, size_t offset) {
    if (id < 0 || id > INT32_MAX)
      fail("gpt2_bpe: ", path, ": id ", id, " at byte ", offset, " is out of range");
    if (size_t(id) >= sizes.size()) {
      fail("gpt2_bpe: ", path, ": id ", id, " of ", sizes.size(), " tokens leaves a gap");
    }
    if (sizes[size_t(id)] != unset) fail("gpt2_bpe: ", path, ": id ", id, " stands for two tokens");
    sizes[size_t(id)] = uint32_t(token.size());
  });
  check(!sizes.empty(), "gpt2_bpe: ", path, ": the vocabulary is empty");
  return sizes;
}

TokenTable read_tokens(const std::string& path) {
  std::string text = read_file(path, largest_file);
  TokenTable tokens(token_sizes(text, path));
  for_each_entry(text, path,
                 [&](int64_t id, const std::string& token, size_t) { tokens.set(size_t(id), token); });
  return tokens;
}

}  // namespace

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path)
    : tokens_(read_tokens(vocab_path)) {
  TokenIndex index(tokens_);
  find_bytes(index, vocab_path);
  load_merges(index, merges_path);
}

void Gpt2Bpe::find_bytes(const TokenIndex& index, const std::string& path) {
  if (int32_t twin = index.find_twin(); twin >= 0) {
    fail("gpt2_bpe: ", path, ": token ", written(tokens_[size_t(twin)]), " stands there twice");
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[size_t(byte)] = index.find(std::string(1, char(byte)));
    check(byte_ids_[size_t(byte)] >= 0, "gpt2_bpe: ", path, ": no token for byte ", byte);
  }
  if (int32_t id = index.find("<|endoftext|>"); id >= 0) end_of_text_ = id;
}

void Gpt2Bpe::load_merges(const TokenIndex& index, const std::string& path) {
  std::string text = read_file(path, largest_file);
  auto lines = size_t(std::count(text.begin(), text.end(), '\n')) + 1;
  merges_ = MergeTable(std::min(lines, tokens_.size()));
  size_t line_number = 0;
  for (size_t start = 0; start < text.size();) {
    size_t stop = std::min(text.find('\n', start), text.size());
    std::string_view line(text.data() + start, stop - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    start = stop + 1;
    ++line_number;
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    add_merge(index, line, path, line_number);
  }
}

void Gpt2Bpe::add_merge(const TokenIndex& index, std::string_view line, const std::string& path,
                        size_t line_number) {
  auto where = [&] { return detail::join(path, ": line ", line_number); };
  size_t space = line.find(' ');
  bool is_pair = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                 line.find(' ', space + 1) == std::string_view::npos;
  if (!is_pair) fail("gpt2_bpe: ", where(), ": not two tokens with a space between");
  std::string left = token_bytes(line.substr(0, space), where),
              right = token_bytes(line.substr(space + 1), where);
  auto id_of = [&](const std::string& token) {
    int32_t id = index.find(token);
    if (id < 0) fail("gpt2_bpe: ", where(), ": token ", written(token), " is not in the vocabulary");
    return id;
  };
  // Each merge of an encoding makes a token of its own, which bounds the table by the vocabulary.
  if (merges_.size() == merges_.most()) {
    fail("gpt2_bpe: ", where(), ": more merges than the ", tokens_.size(), " tokens of the vocabulary");
  }
  bool is_new = merges_.add({id_of(left), id_of(right), id_of(left + right)});
  if (!is_new) fail("gpt2_bpe: ", where(), ": the merge stands there twice");
}

void Gpt2Bpe::save(const std::string& folder) const {
  std::string vocab = "{", merges(version_line);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    vocab += (id == 0 ? "" : ", ") + json_quote(bytes_to_alphabet(tokens_[id])) + ": " + std::to_string(id);
  }
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    auto [left, right, joined] = merges_[rank];
    merges +=
        "\n" + bytes_to_alphabet(tokens_[size_t(left)]) + " " + bytes_to_alphabet(tokens_[size_t(right)]);
  }
  write_file(folder + "/vocab.json", vocab + "}\n");
  write_file(folder + "/merges.txt", merges + "\n");
}

}  // namespace reprise::io
