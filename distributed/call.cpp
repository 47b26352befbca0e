#include "reprise/distributed/call.h"

#include <algorithm>
#include <cstring>

#include "reprise/core/hash.h"
#include "reprise/core/quote.h"

namespace reprise::distributed {
namespace {

// What two notes are compared by; behind it, as much of the texts as there is room for.
struct Head {
  uint64_t key, sequence, hash;
  friend bool operator==(const Head&, const Head&) = default;
};

Head head_of(const Note& note) {
  Head head;
  std::memcpy(&head, note.data(), sizeof(head));
  return head;
}

uint64_t hash_of(const std::string& text) {
  uint64_t hash = text.size();
  for (char c : text) hash = mix(hash, uint64_t(uint8_t(c)));
  return hash;
}

// The group's name, and what the call is, as far as there was room for it.
struct Texts {
  std::string group, description;
};

Texts texts_of(const Note& note) {
  const std::string text(note.begin() + sizeof(Head), note.end());
  const std::string group = text.substr(0, text.find('\0'));
  const std::string rest = text.substr(std::min(text.size(), group.size() + 1));
  return {printable(group), printable(rest.substr(0, rest.find('\0')))};
}

}  // namespace

Call make_call(std::string operation, const std::string& words, const Tensor& x, const std::string& label) {
  Call call{.operation = std::move(operation), .words = words, .label = label};
  if (x.defined()) call.dtype = x.dtype(), call.shape = x.shape(), call.on_cuda = x.device().is_cuda();
  return call;
}

std::string description_of(const Call& call) {
  TextStream text;
  text << call.operation;
  if (!call.words.empty()) text << ' ' << call.words;
  if (call.dtype) text << ' ' << *call.dtype << ' ' << call.shape << (call.on_cuda ? " on cuda" : "");
  if (!call.label.empty()) text << ' ' << quote(call.label);
  return text.str();
}

Note note_of(const Call& call) {
  const std::string description = description_of(call), text = call.group + '\0' + description;
  const Head head{call.key, uint64_t(call.sequence), hash_of(description)};
  Note note{};
  std::memcpy(note.data(), &head, sizeof(head));
  std::memcpy(note.data() + sizeof(head), text.data(), std::min(text.size(), note.size() - sizeof(head)));
  return note;
}

Note expected_note(const Call& call) {
  Call theirs = call;
  if (!call.answer.empty()) theirs.operation = call.answer;
  return note_of(theirs);
}

bool agree(const Note& one, const Note& other) { return head_of(one) == head_of(other); }

std::string description_in(const Note& note, const Call& call) {
  const auto [group, description] = texts_of(note);
  const Head head = head_of(note);
  if (head.key == call.key) return description;
  return detail::join("call ", head.sequence, " of group ", group, ": ", description);
}

std::string place_in(const Note& note) {
  const auto [group, description] = texts_of(note);
  return detail::join(description.substr(0, description.find(' ')), " #", head_of(note).sequence,
                      " of group ", group);
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  TextStream text;
  text << (ranks.size() == 1 ? "rank" : "ranks");
  for (int rank : ranks) text << ' ' << rank;
  return text.str();
}

}  // namespace reprise::distributed
