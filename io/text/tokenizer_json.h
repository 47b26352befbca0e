// tokenizer.json of Hugging Face's tokenizers, where it is a byte-level BPE: GPT-2's, Llama 3's, SmolLM's and their like.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/io/json.h"

namespace reprise::io {

/// A JSON value within a file.
struct JsonPart {
  std::string_view text{};
  size_t offset = 0;  ///< of the value in the file
};

/// What a file says; its parts are views of the text.
struct TokenizerJson {
  JsonPart vocab{}, merges{}, added{};
  /// By which text is split, one after the other, as WordSplitter takes them.
  std::vector<std::string> patterns{};
  bool is_gpt2 =
      false;  ///< split by GPT-2's pattern alone, merged as it does: vocab.json and merges.txt say it all
  bool normalizes = false;      ///< text is brought to normal form C first
  bool ignores_merges = false;  ///< a word that is a token is that, whatever merges there are
  std::string first_token{};    ///< what its post-processor puts before a text; empty: nothing
};

/// Error naming the file, and what of it is of another kind of tokenizer.
TokenizerJson read_tokenizer_json(const std::string& text, const std::string& path);

}  // namespace reprise::io
