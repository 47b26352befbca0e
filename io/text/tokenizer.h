// Tokenizer: text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/io/text/text_origin.h"

namespace reprise::io {

/// Ids are 0 to vocab_size() - 1. Thread-safe: nothing changes after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// The ids of UTF-8 text. Error with the byte if it is not UTF-8 or cannot be expressed; `origin` lets it
  /// name the file and the byte in there.
  virtual std::vector<int32_t> encode(std::string_view text, const TextOrigin& origin = {}) const = 0;
  /// The text of `ids`. Error with the position of an id that is out of range.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  virtual int64_t vocab_size() const = 0;  ///< one more than the largest id
  /// The id that a prompt begins with, if the tokenizer says that one does.
  virtual std::optional<int32_t> first_token() const { return {}; }
  /// The id that ends a document, if there is one.
  virtual std::optional<int32_t> end_of_text() const { return {}; }
  /// The ids that end what a model writes: `end_of_text()`, and those that a model's files name, such as Llama 3's "<|eot_id|>".
  std::vector<int32_t> end_tokens() const;
  /// Writes the tokenizer's files into `folder`, atomically, for `load_tokenizer`.
  void save(const std::string& folder) const;

 private:
  virtual void save_files(const std::string& folder) const = 0;
  friend std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder,
                                                   const std::vector<int32_t>& named_ends);

  std::vector<int32_t> named_ends_;  // by a model's files
};

/// @{
/// The tokenizer whose files lie in `folder`: Gpt2Bpe or SentencePieceBpe if there is a tokenizer.json, the former if merges.txt lies
/// beside vocab.json; else characters. Its `end_tokens` are those that `read_end_tokens` finds there too, or `named_ends`.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder);
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder, const std::vector<int32_t>& named_ends);
/// @}

/// Error naming the position and value of the first id outside [0, vocab_size).
void check_ids(std::span<const int32_t> ids, int64_t vocab_size, const char* op);

}  // namespace reprise::io
