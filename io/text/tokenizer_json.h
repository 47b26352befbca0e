// tokenizer.json of Hugging Face's tokenizers, where it is a byte-pair encoding: of bytes, as GPT-2's, Llama 3's, SmolLM's and Qwen 2's,
// or of characters, as SentencePiece's of Llama 2, TinyLlama and Mistral.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/io/json.h"

namespace reprise::io {

/// What SentencePiece puts in place of a space: U+2581.
inline constexpr std::string_view space_mark = "\u2581";

/// How a file writes tokens: in GPT-2's alphabet of bytes, or as they are.
enum class Spelling : uint8_t { byte_alphabet, literal };

/// A JSON value within a file.
struct JsonPart {
  std::string_view text{};
  size_t offset = 0;  ///< of the value in the file
};

/// What a file says; its parts are views of the text.
struct TokenizerJson {
  enum class Kind : uint8_t { byte_level, sentence_piece };
  /// What stands before a text of the latter kind: U+2581, in place of a space.
  enum class Prepends : uint8_t { nothing, always, unless_there };

  Kind kind = Kind::byte_level;
  Spelling spelling = Spelling::byte_alphabet;
  JsonPart vocab{}, merges{}, added{};
  std::string first_token{};    ///< what its post-processor puts before a text; empty: nothing
  bool ignores_merges = false;  ///< a word that is a token is that, whatever merges there are

  // Of byte_level:
  /// By which text is split, one after the other, as WordSplitter takes them.
  std::vector<std::string> patterns{};
  bool normalizes = false;  ///< text is brought to normal form C first
  /// Split by GPT-2's pattern alone, merged as it does: vocab.json and merges.txt say it all.
  bool is_gpt2 = false;

  // Of sentence_piece:
  Prepends prepends = Prepends::nothing;
};

/// Error naming the file, and what of it is of another kind of tokenizer.
TokenizerJson read_tokenizer_json(const std::string& text, const std::string& path);

}  // namespace reprise::io
