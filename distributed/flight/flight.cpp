#include "reprise/distributed/flight/flight.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "reprise/core/quote.h"
#include "reprise/distributed/flight/records.h"

namespace reprise::distributed {
namespace {

std::string state_of(const RecordedCall& call) {
  return call.done > 0 ? "done" : call.begun > 0 ? "begun, not done" : "issued, not begun";
}

using Track = std::map<int, const std::map<int64_t, RecordedCall>*>;  // of one group, by rank

// The first call for which `find` gives lines, among those that several ranks have.
template <class Find>
std::string first_call(const Track& track, const std::string& what, const Find& find) {
  std::set<int64_t> numbers;
  for (const auto& [rank, calls] : track)
    for (const auto& [number, entry] : *calls) numbers.insert(number);
  for (int64_t number : numbers) {
    std::map<std::string, std::vector<int>> by_text;
    for (const auto& [rank, calls] : track)
      if (const auto found = calls->find(number); found != calls->end())
        by_text[find(found->second)].push_back(rank);
    if (by_text.size() < 2) continue;
    std::string lines = detail::join("  ", what, ": #", number, '\n');
    for (const auto& [text, ranks] : by_text)
      lines += detail::join("    ", ranks_in_words(ranks), ": ", printable(text), '\n');
    return lines;
  }
  return "";
}

std::string compared(const std::string& name, const Track& track) {
  std::string text = detail::join("group ", printable(name), '\n');
  int64_t newest = 0;
  for (const auto& [rank, calls] : track) newest = std::max(newest, calls->rbegin()->first);
  std::vector<int> behind;
  for (const auto& [rank, calls] : track) {
    const auto& [number, entry] = *calls->rbegin();
    text += detail::join("  rank ", rank, ": last call #", number, ", ", state_of(entry), ": ",
                         printable(described(entry)), '\n');
    if (number < newest) behind.push_back(rank);
  }
  const std::string difference = first_call(track, "first call on which they differ", described);
  text += difference.empty() ? "  the calls that they have in common agree\n" : difference;
  text += first_call(track, "first call that is not done on all", [](const RecordedCall& call) {
    return std::string(call.done > 0 ? "done" : "not done");
  });
  if (!behind.empty())
    text +=
        detail::join("  behind: ", ranks_in_words(behind), ", without call #", newest, " of the others\n");
  return text;
}

}  // namespace

std::string compare_records(const std::string& folder) {
  const std::map<int, CallRecord> records = read_records(folder);
  int ranks = records.rbegin()->first + 1;
  for (const auto& [rank, record] : records) ranks = std::max(ranks, record.ranks);
  std::string text = detail::join(records.size(), " of ", ranks, " ranks have left a record\n");
  std::map<std::string, Track> tracks;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto found = records.find(rank);
    text += detail::join("rank ", rank, ": ",
                         found == records.end() ? "no record: it was killed, or never failed"
                                                : printable(found->second.reason),
                         '\n');
    if (found == records.end()) continue;
    for (const auto& [name, calls] : found->second.calls) tracks[name][rank] = &calls;
  }
  for (const auto& [name, track] : tracks) text += compared(name, track);
  return text;
}

}  // namespace reprise::distributed
