#include "reprise/distributed/call.h"

#include <algorithm>
#include <cstring>

#include "reprise/core/hash.h"
#include "reprise/core/quote.h"

namespace reprise::distributed {
namespace {

constexpr size_t text_begin = 2 * sizeof(uint64_t);

uint64_t hash_of(const std::string& text) {
  uint64_t hash = text.size();
  for (char c : text) hash = mix(hash, uint64_t(uint8_t(c)));
  return hash;
}

}  // namespace

Call make_call(std::string operation, const std::string& words, const Tensor& x, const std::string& label) {
  TextStream text;
  text << operation;
  if (!words.empty()) text << ' ' << words;
  if (x.defined()) text << ' ' << x.dtype() << ' ' << x.shape();
  if (!label.empty()) text << ' ' << quote(label);
  return {.operation = std::move(operation), .label = label, .description = text.str()};
}

Note note_of(const Call& call) {
  Note note{};
  const uint64_t numbers[] = {uint64_t(call.sequence), hash_of(call.description)};
  std::memcpy(note.data(), numbers, sizeof(numbers));
  std::memcpy(note.data() + text_begin, call.description.data(),
              std::min(call.description.size(), note.size() - text_begin));
  return note;
}

std::string description_in(const Note& note) {
  const std::string text(note.begin() + text_begin, note.end());
  return printable(text.substr(0, text.find('\0')));
}

}  // namespace reprise::distributed
