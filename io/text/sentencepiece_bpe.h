// SentencePiece's byte-pair encoding of characters (Kudo and Richardson 2018), as tokenizer.json of Llama 2, TinyLlama and Mistral has it.
#pragma once

#include <array>
#include <memory>

#include "reprise/io/text/bpe_files.h"
#include "reprise/io/text/tokenizer.h"

namespace reprise::io {

/// Spaces become U+2581, one more stands before the text, and neighbours with the earliest merge are joined, from characters on. A
/// character that is no token becomes its bytes, which are the tokens "<0x00>" to "<0xFF>".
class SentencePieceBpe : public Tokenizer {
 public:
  /// Reads tokenizer.json. Error with file and offset if it is damaged, lacks a byte, or is of another kind, which is named.
  explicit SentencePieceBpe(const std::string& tokenizer_path);
  SentencePieceBpe(const SentencePieceBpe&) = delete;

  /// "<s>" and "</s>" in a text are text.
  std::vector<int32_t> encode(std::string_view text, const TextOrigin& origin = {}) const override;
  /// Without the space that was put before the text. Bytes that make no character stay as they are.
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return int64_t(tables_.tokens.size()); }
  std::optional<int32_t> first_token() const override { return first_token_; }
  /// The id of "</s>"; nothing if the vocabulary has no such token.
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }

 private:
  void save_files(const std::string& folder) const override;  // tokenizer.json, as it was read
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::string file_;
  BpeTables tables_;
  std::unique_ptr<TokenIndex> index_;  // of tables_.tokens
  std::array<int32_t, 256> byte_ids_{};
  TokenizerJson::Prepends prepends_ = TokenizerJson::Prepends::nothing;
  bool splits_ = false;  // no token goes on behind a word
  std::optional<int32_t> first_token_, end_of_text_;
};

}  // namespace reprise::io
