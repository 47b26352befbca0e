// Patterns, run by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8  // which pcre2.h asks for
#include "reprise/io/text/word_splitter.h"

#include <pcre2.h>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"

namespace reprise::io {
namespace {

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

// Unicode's White_Space is spelled out: PCRE2's own \s also takes U+180E, which others' does not.
std::string with_white_space(const std::string& pattern) {
  const std::string_view spaces = R"(\x{9}-\x{d}\x{85}\p{Z})";
  std::string spelled;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool is_escape = c == '\\' && i + 1 < pattern.size();
    const char escaped = is_escape ? pattern[i + 1] : '\0';
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    check(!(in_class && escaped == 'S'), "word_splitter: the pattern ", quote(pattern), " has \\S within []");
    if (escaped == 's' || escaped == 'S') {
      const std::string inside(spaces);
      spelled += in_class ? inside : (escaped == 's' ? "[" : "[^") + inside + "]";
    } else {
      spelled += c;
      if (is_escape) spelled += escaped;
    }
    i += is_escape;
  }
  return spelled;
}

}  // namespace

constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class WordSplitter::Pattern {
 public:
  explicit Pattern(const std::string& pattern) {
    const std::string spelled = with_white_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(units(spelled), spelled.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    check(code_ != nullptr, "word_splitter: the pattern ", quote(pattern), ": ", message_of(error));
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without it, matching is slower and the same
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;

  // Calls `piece` with each match that is not empty, and with what lies before, between and behind them.
  template <class Piece>
  void split(std::string_view text, const Piece& piece) const {
    std::unique_ptr<pcre2_match_data, MatchDeleter> match(
        pcre2_match_data_create_from_pattern(code_, nullptr));
    invariant(match != nullptr, "word_splitter: out of memory");
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    size_t done = 0;
    while (done < text.size()) {
      const int count = pcre2_match(code_, units(text), text.size(), done,
                                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
      if (count == PCRE2_ERROR_NOMATCH) break;
      check(count > 0, "word_splitter: behind byte ", done, ": ", message_of(count));
      if (bounds[0] > done) piece(text.substr(done, bounds[0] - done));
      piece(text.substr(bounds[0], bounds[1] - bounds[0]));
      done = bounds[1];
    }
    if (done < text.size()) piece(text.substr(done));
  }

 private:
  pcre2_code* code_ = nullptr;
};

WordSplitter::WordSplitter(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) patterns_.push_back(std::make_unique<Pattern>(pattern));
}
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;
WordSplitter::~WordSplitter() = default;

void WordSplitter::split(std::string_view text, const std::function<void(std::string_view)>& word) const {
  if (!text.empty()) split_from(0, text, word);
}

void WordSplitter::split_from(size_t pattern, std::string_view text,
                              const std::function<void(std::string_view)>& word) const {
  if (pattern == patterns_.size()) return word(text);
  patterns_[pattern]->split(text, [&](std::string_view piece) { split_from(pattern + 1, piece, word); });
}

}  // namespace reprise::io
