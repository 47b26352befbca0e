// One token a character: the vocabulary is the sorted set of Unicode code points of a text, as in nanoGPT's
// shakespeare_char.
#pragma once

#include "reprise/io/text/tokenizer.h"

namespace reprise::io {

/// One token per character, whose id is its place among the vocabulary's code points in ascending order.
class CharTokenizer : public Tokenizer {
 public:
  /// The vocabulary of `text`. Error if it is empty or not UTF-8.
  static CharTokenizer from_text(std::string_view text);
  /// Reads a JSON list of one-character strings, sorted by code point.
  static CharTokenizer load(const std::string& path);

  /// Error with file, byte and character for one that is not in the vocabulary; the message names others behind it too, up to a dozen, and
  /// counts the rest.
  std::vector<int32_t> encode(std::string_view text, const TextOrigin& origin = {}) const override;
  /// UTF-8 text. Error with the position of an id that is out of range.
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return int64_t(characters_.size()); }  ///< characters; 1 or more

 private:
  void save_files(const std::string& folder) const override;  // vocab.json
  explicit CharTokenizer(std::u32string characters);
  int32_t find(char32_t character) const;  // -1 if there is none
  // Error naming the characters from `position` on that there are none for.
  [[noreturn]] void refuse_missing(std::string_view text, size_t position, const TextOrigin& origin) const;

  std::u32string characters_;  // sorted; the index is the id
  std::vector<int32_t> ascii_ids_;
};

}  // namespace reprise::io
