// GPT-2's byte-level byte-pair encoding (Radford et al. 2019; merging by Sennrich et al. 2016): text is split
// into words by patterns, and in each word the neighbours with the earliest merge are joined until none is
// left. Llama 3, SmolLM and others have the same with other patterns.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "reprise/io/text/bpe_files.h"
#include "reprise/io/text/tokenizer.h"
#include "reprise/io/text/word_splitter.h"

namespace reprise::io {

/// Reads the published files: vocab.json (token to id) and merges.txt (one merge a line, earliest first); or tokenizer.json.
class Gpt2Bpe : public Tokenizer {
 public:
  /// Error with file and line or offset if they are damaged, do not fit each other, lack one of the 256 bytes
  /// or have more merges than the tokens can be cut in two.
  Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path);
  /// Reads tokenizer.json of Hugging Face's tokenizers, where that is byte-level BPE without a normalizer; its patterns are Split
  /// (isolated), Digits and ByteLevel. The same Errors, and one naming what is of another kind.
  explicit Gpt2Bpe(const std::string& tokenizer_path);
  Gpt2Bpe(const Gpt2Bpe&) = delete;

  /// Treats "<|endoftext|>" as any other text, which is what untrusted text needs.
  std::vector<int32_t> encode(std::string_view text, const TextOrigin& origin = {}) const override;
  /// Takes each mark that ends a text, such as "<|endoftext|>", for the special token.
  std::vector<int32_t> encode_with_special(std::string_view text, const TextOrigin& origin = {}) const;
  /// The bytes of `ids`: parts of a character that the ids cut stay as they are.
  std::string decode(std::span<const int32_t> ids) const override;
  /// Tokens of the vocabulary, "<|endoftext|>" among them if it is there: 50,257 of GPT-2's.
  int64_t vocab_size() const override { return int64_t(tokens_.size()); }
  std::optional<int32_t> first_token() const override { return first_token_; }
  /// The id of "<|endoftext|>", or of Llama 3's "<|end_of_text|>"; nothing if the vocabulary has no such token.
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }

 private:
  /// vocab.json and merges.txt, or tokenizer.json where they do not say it all.
  void save_files(const std::string& folder) const override;
  void take(BpeTables tables, const std::string& path);
  void append_text(std::string_view text, std::vector<int32_t>& ids) const;
  void append_words(std::string_view text, std::vector<int32_t>& ids) const;
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;

  TokenTable tokens_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};
  std::optional<int32_t> first_token_, end_of_text_;
  WordSplitter splitter_;
  std::unique_ptr<WordSplitter> finder_;                     // of added tokens that are no special ones
  std::map<std::string, int32_t, std::less<>> found_first_;  // their ids
  std::unique_ptr<TokenIndex> index_;                        // of tokens_
  bool ignores_merges_ = false;                              // a word that is a token is that
  bool normalizes_ = false;                                  // text becomes normal form C first
  std::string file_;  // tokenizer.json, where vocab.json and merges.txt do not say it all
};

}  // namespace reprise::io
