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

// A JSON value within a file.
struct Part {
  std::string_view text{};
  size_t offset = 0;
};

JsonReader reader_of(const Part& part, const std::string& path) { return {part.text, path, part.offset}; }

size_t count_entries(const Part& vocab, const std::string& path) {
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
void for_each_entry(const Part& vocab, const std::string& path, Body&& body) {
  JsonReader json = reader_of(vocab, path);
  json.object([&](const std::string& key) {
    size_t offset = json.offset();
    int64_t id = json.integer();
    body(id, token_bytes(key, [&] { return detail::join(path, ": before byte ", offset); }), offset);
  });
}

std::vector<uint32_t> token_sizes(const Part& vocab, const std::string& path) {
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

TokenTable read_tokens(const Part& vocab, const std::string& path) {
  TokenTable tokens(token_sizes(vocab, path));
  for_each_entry(vocab, path,
                 [&](int64_t id, const std::string& token, size_t) { tokens.set(size_t(id), token); });
  return tokens;
}

// tokenizer.json of Hugging Face's tokenizers: what of it is GPT-2's, or else an Error.
struct TokenizerJson {
  Part vocab{}, merges{}, added{};
};

TokenizerJson find_parts(const std::string& text, const std::string& path) {
  TokenizerJson found;
  JsonReader json(text, path);
  auto refuse = [&](const char* what) {
    fail("gpt2_bpe: ", path, ": ", what, ": no such tokenizer here, only GPT-2's");
  };
  auto part = [&] {
    const size_t begin = json.offset();
    json.skip();
    return Part{std::string_view(text).substr(begin, json.offset() - begin), begin};
  };
  auto expect = [&](bool holds, const char* what) {
    if (!holds) refuse(what);
  };
  auto is_null = [&] {
    const bool null = json.peek() == JsonReader::Kind::null;
    json.skip();
    return null;
  };
  bool splits_as_gpt2 = false;
  json.object([&](const std::string& key) {
    if (key == "normalizer") {
      expect(is_null(), "a normalizer");
    } else if (key == "added_tokens") {
      found.added = part();
    } else if (key == "pre_tokenizer" && json.peek() == JsonReader::Kind::object) {
      json.object([&](const std::string& name) {
        if (name == "type")
          splits_as_gpt2 = json.string() == "ByteLevel";
        else if (name == "add_prefix_space")
          expect(!json.boolean(), "add_prefix_space");
        else if (name == "use_regex")
          expect(json.boolean(), "a pre_tokenizer without its pattern");
        else
          json.skip();
      });
    } else if (key == "model") {
      json.object([&](const std::string& name) {
        if (name == "type")
          expect(json.string() == "BPE", "a model that is no BPE");
        else if (name == "vocab")
          found.vocab = part();
        else if (name == "merges")
          found.merges = part();
        else if (name == "dropout" || name == "unk_token")
          expect(is_null(), "dropout or an unk_token");
        else if (name == "byte_fallback" || name == "ignore_merges")
          expect(!json.boolean(), "byte_fallback or ignore_merges");
        else
          json.skip();
      });
    } else {
      json.skip();
    }
  });
  json.end();
  expect(splits_as_gpt2, "a pre_tokenizer that is not ByteLevel");
  check(!found.vocab.text.empty() && !found.merges.text.empty(), "gpt2_bpe: ", path,
        ": its model has no vocab and merges");
  return found;
}

// Calls `body(left, right, where)`: of "a b" and of ["a", "b"], which newer files have.
template <class Body>
void for_each_merge(const Part& merges, const std::string& path, Body&& body) {
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
    tokens_ = read_tokens({text, 0}, vocab_path);
  }
  TokenIndex index(tokens_);
  find_bytes(index, vocab_path);
  load_merges(index, merges_path);
}

Gpt2Bpe::Gpt2Bpe(const std::string& path) {
  const std::string text = read_file(path, largest_file);
  const TokenizerJson parts = find_parts(text, path);
  tokens_ = read_tokens(parts.vocab, path);
  TokenIndex index(tokens_);
  find_bytes(index, path);
  size_t count = 0;
  for_each_merge(parts.merges, path, [&](std::string_view, const auto&) { ++count; });
  merges_ = MergeTable(std::min(count, tokens_.size()));
  for_each_merge(parts.merges, path,
                 [&](std::string_view pair, const auto& where) { add_merge(index, pair, where); });
  if (parts.added.text.empty()) return;
  JsonReader json = reader_of(parts.added, path);
  json.array([&] {
    std::string token;
    int64_t id = -1;
    json.object([&](const std::string& key) {
      if (key == "content")
        token = json.string();
      else if (key == "id")
        id = json.integer();
      else
        json.skip();
    });
    check(index.find(token) == id, "gpt2_bpe: ", path, ": added token ", quote(token), " is not number ", id,
          " of the vocabulary: no such tokenizer here");
  });
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
