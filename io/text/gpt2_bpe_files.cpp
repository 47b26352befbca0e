// Gpt2Bpe from its files, and back.
#include <algorithm>
#include <cctype>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"
#include "reprise/io/text/bpe_files.h"
#include "reprise/io/text/byte_alphabet.h"
#include "reprise/io/text/gpt2_bpe.h"
#include "reprise/io/text/nfc.h"

namespace reprise::io {
namespace {

constexpr std::string_view version_line = "#version: 0.2";

// Of any of these texts, the longest of those that begin at one place.
std::string pattern_of(std::vector<std::string> texts) {
  std::ranges::sort(texts, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::string pattern;
  for (const std::string& text : texts) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : text) {
      const bool is_sign =
          static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c)) && c > ' ';
      if (is_sign) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

}  // namespace

Gpt2Bpe::Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path) {
  take(read_bpe(vocab_path, merges_path), vocab_path);
}

Gpt2Bpe::Gpt2Bpe(const std::string& path) {
  std::string text = read_file(path, largest_bpe_file);
  const TokenizerJson parts = read_tokenizer_json(text, path);
  check(parts.kind == TokenizerJson::Kind::byte_level, "bpe: ", path,
        ": SentencePiece's kind of tokenizer (byte_fallback), which is no Gpt2Bpe: see SentencePieceBpe");
  BpeTables tables = read_bpe(parts, path);
  const std::vector<std::string> found_first = std::move(tables.found_first);
  take(std::move(tables), path);
  for (const std::string& token : found_first) found_first_[token] = index_->find(token);
  if (!found_first.empty()) finder_ = std::make_unique<WordSplitter>(std::vector{pattern_of(found_first)});
  splitter_ = WordSplitter(parts.patterns);
  if (!parts.first_token.empty()) first_token_ = id_of(*index_, parts.first_token, "the first token", path);
  ignores_merges_ = parts.ignores_merges;
  normalizes_ = parts.normalizes;
  check(!normalizes_ || has_nfc(), "bpe: ", path,
        ": its normalizer is NFC, for which this build lacks utf8proc (Debian: libutf8proc-dev)");
  if (!parts.is_gpt2) file_ = std::move(text);
}

void Gpt2Bpe::take(BpeTables tables, const std::string& path) {
  tokens_ = std::move(tables.tokens);
  merges_ = std::move(tables.merges);
  index_ = std::make_unique<TokenIndex>(tokens_);
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[size_t(byte)] = index_->find(std::string(1, char(byte)));
    check(byte_ids_[size_t(byte)] >= 0, "bpe: ", path, ": no token for byte ", byte);
  }
  for (const char* mark : {"<|endoftext|>", "<|end_of_text|>"})
    if (int32_t id = index_->find(mark); id >= 0 && !end_of_text_) end_of_text_ = id;
}

void Gpt2Bpe::save_files(const std::string& folder) const {
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
