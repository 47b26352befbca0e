// The pattern of GPT-2's encoder.py, run by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8  // which pcre2.h asks for
#include "reprise/io/text/word_splitter.h"

#include <pcre2.h>

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

// Unicode's White_Space is spelled out: PCRE2's own \s also takes U+180E, which GPT-2's does not.
constexpr std::string_view words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\x{9}-\x{d}\x{85}\p{Z}\p{L}\p{N}]+)"
    R"(|[\x{9}-\x{d}\x{85}\p{Z}]+(?![^\x{9}-\x{d}\x{85}\p{Z}])|[\x{9}-\x{d}\x{85}\p{Z}]+)";

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct WordSplitter::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

WordSplitter::WordSplitter() : pattern_(std::make_unique<Pattern>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern_->code = pcre2_compile(units(words), words.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  invariant(pattern_->code != nullptr, "word_splitter: ", message_of(error), " at ", offset);
  pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);  // without it, matching is slower and the same
}

WordSplitter::~WordSplitter() = default;

void WordSplitter::split(std::string_view text, const std::function<void(std::string_view)>& word) const {
  std::unique_ptr<pcre2_match_data, MatchDeleter> match(
      pcre2_match_data_create_from_pattern(pattern_->code, nullptr));
  invariant(match != nullptr, "word_splitter: out of memory");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
  for (size_t position = 0; position < text.size(); position = bounds[1]) {
    int count = pcre2_match(pattern_->code, units(text), text.size(), position, PCRE2_NO_UTF_CHECK,
                            match.get(), nullptr);
    check(count > 0, "word_splitter: at byte ", position, ": ", message_of(count));
    invariant(bounds[0] == position && bounds[1] > position, "word_splitter: no word at byte ", position);
    word(text.substr(position, bounds[1] - position));
  }
}

}  // namespace reprise::io
