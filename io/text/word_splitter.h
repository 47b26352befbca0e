// Words: the pieces of a text that byte pairs are never merged across.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::io {

/// GPT-2's pattern: contractions, then letters, digits or other signs, each with a space before, then spaces.
extern const std::string_view gpt2_words;

/// Splits by patterns. Thread-safe.
class WordSplitter {
 public:
  /// Each pattern splits the pieces of the one before into its matches and what lies between. In them, as in tokenizer.json,
  /// \\s and \\S are of Unicode's White_Space. Error naming the pattern that is none, or what of it programs
  /// read in different ways.
  explicit WordSplitter(const std::vector<std::string>& patterns = {std::string(gpt2_words)});
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  /// Calls `word` with each piece in order; together they are all of `text`, which must be valid UTF-8.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  class Pattern;
  void split_from(size_t pattern, std::string_view text,
                  const std::function<void(std::string_view)>& word) const;

  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace reprise::io
