// GPT-2's words: the pieces that byte pairs are never merged across.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace reprise::io {

/// Splits by GPT-2's pattern: contractions, then letters, digits or other signs, each with a space before,
/// then spaces. Thread-safe.
class WordSplitter {
 public:
  WordSplitter();
  ~WordSplitter();

  /// Calls `word` with each piece in order; together they are all of `text`, which must be valid UTF-8.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace reprise::io
