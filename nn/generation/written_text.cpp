#include "reprise/nn/generation/written_text.h"

#include <algorithm>

#include "reprise/core/error.h"

namespace reprise {
namespace {

// Bytes at the end that begin a character and do not end it.
size_t unfinished_character(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(3, text.size()); ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t whole = byte > 0xf4 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return bytes < whole ? bytes : 0;
  }
  return 0;
}

// Bytes at the end that may be the beginning of `stop`.
size_t begun(std::string_view text, std::string_view stop) {
  for (size_t bytes = std::min(text.size(), stop.size() - 1); bytes > 0; --bytes)
    if (text.ends_with(stop.substr(0, bytes))) return bytes;
  return 0;
}

}  // namespace

WrittenText::WrittenText(std::vector<std::string> stops, std::function<void(std::string_view)> show)
    : stops_(std::move(stops)), show_(std::move(show)) {
  std::erase(stops_, "");
}

bool WrittenText::add(std::string_view piece) {
  if (ended_) return false;
  kept_ += piece;
  size_t end = std::string::npos, keep = unfinished_character(kept_);
  for (const std::string& stop : stops_) {
    end = std::min(end, kept_.find(stop));
    keep = std::max(keep, begun(kept_, stop));
  }
  if (end != std::string::npos) {
    kept_.resize(end);
    ended_ = true;
    return false;
  }
  const size_t shown = kept_.size() - keep;
  if (shown > 0) show_(std::string_view(kept_).substr(0, shown));
  kept_.erase(0, shown);
  return true;
}

void WrittenText::finish() {
  if (!kept_.empty()) show_(kept_);
  kept_.clear();
}

WrittenTokens::WrittenTokens(Decode decode, std::span<const int32_t> before, std::vector<std::string> stops,
                             std::function<void(std::string_view)> show)
    : decode_(std::move(decode)),
      last_(before.end() - std::ptrdiff_t(std::min<size_t>(before.size(), 1)), before.end()),
      text_(std::move(stops), std::move(show)) {
  check(bool(decode_), "WrittenTokens: there is no function from ids to text");
}

// What a token reads as depends on whether it is the first: a tokenizer may drop its space there.
bool WrittenTokens::add(int32_t token) {
  const size_t before = decode_(last_).size();
  last_.push_back(token);
  const std::string both = decode_(last_);
  last_ = {token};
  return text_.add(std::string_view(both).substr(std::min(before, both.size())));
}

}  // namespace reprise
