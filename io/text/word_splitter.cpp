// Patterns, run by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8  // which pcre2.h asks for
#include "reprise/io/text/word_splitter.h"

#include <pcre2.h>

#include <cstring>

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

// What is read alike by PCRE2 and by Oniguruma, which the tokenizers library uses, with \s spelled out as Unicode's White_Space:
// PCRE2's own also takes U+180E. Error naming what is not.
class PatternReader {
 public:
  explicit PatternReader(const std::string& pattern) : pattern_(pattern) {}

  std::string spelled() {
    for (; at_ < pattern_.size(); ++at_) {
      const char c = pattern_[at_];
      if (c == '\\')
        take_escape();
      else if (in_class_)
        take_of_class(c);
      else
        take_outside(c);
    }
    return std::move(spelled_);
  }

 private:
  void refuse_if(bool differs, const std::string& what) const {
    check(!differs, "word_splitter: the pattern ", quote(pattern_), " has ", what,
          ", which programs read in different ways");
  }
  bool follows(std::string_view text) const {
    return std::string_view(pattern_).substr(at_).starts_with(text);
  }

  void take_escape() {
    ++at_;
    refuse_if(at_ == pattern_.size(), "a \\ at its end");
    const char c = pattern_[at_];
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    refuse_if(is_word && !std::strchr("pPsSdDrntfx", c), std::string("\\") + c);
    refuse_if(in_class_ && c == 'S', "\\S within []");
    if (c == 's' || c == 'S')
      spelled_ += in_class_ ? spaces : (c == 's' ? "[" : "[^") + spaces + "]";
    else
      (spelled_ += '\\') += c;
  }

  void take_of_class(char c) {
    refuse_if(c == '[' || follows("&&"), "a set within []");
    in_class_ = c != ']';
    spelled_ += c;
  }

  void take_outside(char c) {
    refuse_if(c == '^' || c == '$', std::string(1, c));
    refuse_if(follows("{,"), "{,");
    const bool is_known = follows("(?:") || follows("(?i:") || follows("(?=") || follows("(?!") ||
                          follows("(?>") || follows("(?<=") || follows("(?<!");
    refuse_if((follows("(?") && !is_known) || follows("(*"), "an option in ()");
    spelled_ += c;
    if (c != '[') return;
    in_class_ = true;
    if (follows("[^")) spelled_ += pattern_[++at_];
    refuse_if(at_ + 1 < pattern_.size() && pattern_[at_ + 1] == ']', "a ] at the beginning of []");
  }

  inline static const std::string spaces = R"(\x{9}-\x{d}\x{85}\p{Z})";
  const std::string& pattern_;
  std::string spelled_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class WordSplitter::Pattern {
 public:
  explicit Pattern(const std::string& pattern) {
    const std::string spelled = PatternReader(pattern).spelled();
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(units(spelled), spelled.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                          &error, &offset, nullptr);
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
      auto next = [&](uint32_t more) {
        return pcre2_match(code_, units(text), text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | more,
                           match.get(), nullptr);
      };
      int count = next(0);
      if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = next(PCRE2_NO_JIT);  // which takes memory as it needs it
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
