// Reading and writing vocab.json and merges.txt, and reading tokenizer.json. All are read more than once rather than into
// containers that grow: whatever they hold, loading takes at most twice their bytes.
#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/nfc.h"
#include "reprise/io/text/tokenizer_json.h"

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
void for_each_entry(const JsonPart& vocab, const std::string& path, Body&& body) {
  JsonReader json = reader_of(vocab, path);
  json.object([&](const std::string& key) {
    size_t offset = json.offset();
    int64_t id = json.integer();
    body(id, token_bytes(key, [&] { return detail::join(path, ": before byte ", offset); }), offset);
  });
}

std::vector<uint32_t> token_sizes(const JsonPart& vocab, const std::string& path) {
  constexpr uint32_t unset = UINT32_MAX;
  std::vector<uint32_t> sizes;
  size_t count = count_entries(vocab, path);
  sizes.reserve(count + 1);  // TokenTable needs one more
  sizes.resize(count, unset);
  for_each_entry(vocab, path, [&](int64_t id, const std::string& token, size_t offset) {
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

// A token that no merge makes, as it stands in a text.
struct AddedToken {
  std::string text{};
  int64_t id = -1;
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
      else
        json.skip();
    });
  });
  std::ranges::sort(tokens, {}, &AddedToken::id);
  return tokens;
}

// Of the vocabulary, and of added tokens behind it.
TokenTable read_tokens(const JsonPart& vocab, const std::vector<AddedToken>& added, const std::string& path) {
  std::vector<uint32_t> sizes = token_sizes(vocab, path);
  const size_t of_vocabulary = sizes.size();
  for (const AddedToken& token : added)
    if (token.id == int64_t(sizes.size())) sizes.push_back(uint32_t(token.text.size()));
  TokenTable tokens(std::move(sizes));
  for_each_entry(vocab, path,
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

}  // namespace

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path) {
  {
    const std::string text = read_file(vocab_path, largest_file);
    tokens_ = read_tokens({text, 0}, {}, vocab_path);
  }
  TokenIndex index(tokens_);
  find_bytes(index, vocab_path);
  load_merges(index, merges_path);
}

Gpt2Bpe::Gpt2Bpe(const std::string& path) {
  std::string text = read_file(path, largest_file);
  const TokenizerJson parts = read_tokenizer_json(text, path);
  const std::vector<AddedToken> added = read_added(parts.added, path);
  tokens_ = read_tokens(parts.vocab, added, path);
  TokenIndex index(tokens_);
  find_bytes(index, path);
  for (const AddedToken& token : added)
    check(index.find(token.text) == token.id, "gpt2_bpe: ", path, ": added token ", quote(token.text),
          " is not number ", token.id, " of the vocabulary: no such tokenizer here");
  size_t count = 0;
  for_each_merge(parts.merges, path, [&](std::string_view, const auto&) { ++count; });
  merges_ = MergeTable(std::min(count, tokens_.size()));
  for_each_merge(parts.merges, path,
                 [&](std::string_view pair, const auto& where) { add_merge(index, pair, where); });
  splitter_ = WordSplitter(parts.patterns);
  if (!parts.first_token.empty()) {
    first_token_ = index.find(parts.first_token);
    check(*first_token_ >= 0, "gpt2_bpe: ", path, ": the first token ", quote(parts.first_token),
          " of its post_processor is not in the vocabulary");
  }
  if (parts.ignores_merges) whole_words_ = std::make_unique<TokenIndex>(tokens_);
  normalizes_ = parts.normalizes;
  check(!normalizes_ || has_nfc(), "gpt2_bpe: ", path,
        ": its normalizer is NFC, for which this build lacks utf8proc (Debian: libutf8proc-dev)");
  if (!parts.is_gpt2) file_ = std::move(text);
}

void Gpt2Bpe::find_bytes(const TokenIndex& index, const std::string& path) {
  if (int32_t twin = index.find_twin(); twin >= 0) {
    fail("gpt2_bpe: ", path, ": token ", written(tokens_[size_t(twin)]), " stands there twice");
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[size_t(byte)] = index.find(std::string(1, char(byte)));
    check(byte_ids_[size_t(byte)] >= 0, "gpt2_bpe: ", path, ": no token for byte ", byte);
  }
  for (const char* mark : {"<|endoftext|>", "<|end_of_text|>"})
    if (int32_t id = index.find(mark); id >= 0 && !end_of_text_) end_of_text_ = id;
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
    add_merge(index, line, [&] { return detail::join(path, ": line ", line_number); });
  }
}

template <class Where>
void Gpt2Bpe::add_merge(const TokenIndex& index, std::string_view pair, const Where& where) {
  size_t space = pair.find(' ');
  bool is_pair = space != std::string_view::npos && space > 0 && space + 1 < pair.size() &&
                 pair.find(' ', space + 1) == std::string_view::npos;
  if (!is_pair) fail("gpt2_bpe: ", where(), ": not two tokens with a space between");
  std::string left = token_bytes(pair.substr(0, space), where),
              right = token_bytes(pair.substr(space + 1), where);
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
  if (!file_.empty()) return write_file(folder + "/tokenizer.json", file_);
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
