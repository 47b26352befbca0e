#include "reprise/distributed/flight/flight.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "reprise/core/quote.h"
#include "reprise/distributed/call.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"

namespace reprise::distributed {
namespace {

constexpr int most_ranks = 1 << 20;
constexpr uint64_t most_bytes = uint64_t(256) << 20;

// One call as a rank has recorded it.
struct Entry {
  Call call;
  bool is_begun = false, is_done = false;
};

struct Record {
  int rank = 0, ranks = 0;
  std::string reason;
  std::map<std::string, std::map<int64_t, Entry>> calls;  // by group, or group and pair; by number
};

std::vector<int64_t> integers_in(io::JsonReader& json) {
  std::vector<int64_t> all;
  json.array([&] { all.push_back(json.integer()); });
  return all;
}

bool is_set(io::JsonReader& json) {
  const bool is_null = json.peek() == io::JsonReader::Kind::null;
  json.skip();
  return !is_null;
}

Entry read_entry(const std::string& line, const std::string& path, size_t offset) {
  Entry entry;
  Call& call = entry.call;
  io::JsonReader json(line, path, offset);
  json.object([&](const std::string& key) {
    if (key == "group") return void(call.group = json.string());
    if (key == "sequence") return void(call.sequence = json.integer());
    if (key == "operation") return void(call.operation = json.string());
    if (key == "words") return void(call.words = json.string());
    if (key == "label") return void(call.label = json.string());
    if (key == "dtype") return void(call.words += (call.words.empty() ? "" : " ") + json.string());
    if (key == "shape") return void(call.words += detail::join(' ', Shape(integers_in(json))));
    if (key == "begun") return void(entry.is_begun = is_set(json));
    if (key == "done") return void(entry.is_done = is_set(json));
    json.skip();
  });
  json.end();
  return entry;
}

void read_head(Record& record, const std::string& line, const std::string& path) {
  io::JsonReader json(line, path);
  json.object([&](const std::string& key) {
    if (key == "rank") return void(record.rank = int(json.integer()));
    if (key == "ranks") return void(record.ranks = int(json.integer()));
    if (key == "reason") return void(record.reason = json.string());
    json.skip();
  });
  json.end();
}

// A send and the recv that it meets have one number and one description.
std::string track_of(const Call& call) {
  const bool is_pair = call.operation == "send" || call.operation == "recv";
  return is_pair ? call.group + " " + call.words.substr(0, call.words.find(' ', call.words.find(" to ") + 4))
                 : call.group;
}

Record read_record(const std::string& path) {
  const std::string text = io::read_file(path, most_bytes);
  Record record;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (begin == 0) {
      read_head(record, line, path);
    } else {
      Entry entry = read_entry(line, path, begin);
      record.calls[track_of(entry.call)][entry.call.sequence] = std::move(entry);
    }
    begin = end + 1;
  }
  check(record.rank >= 0 && record.rank < record.ranks && record.ranks <= most_ranks, path, ": rank ",
        record.rank, " of ", record.ranks);
  return record;
}

std::string described(const Entry& entry) {
  Call call = entry.call;
  if (call.operation == "recv") call.operation = "send";
  return description_of(call);
}

std::string state_of(const Entry& entry) {
  return entry.is_done ? "done" : entry.is_begun ? "begun, not done" : "issued, not begun";
}

using Track = std::map<int, const std::map<int64_t, Entry>*>;  // of one group, by rank

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
  text += first_call(track, "first call that is not done on all",
                     [](const Entry& e) { return std::string(e.is_done ? "done" : "not done"); });
  if (!behind.empty())
    text +=
        detail::join("  behind: ", ranks_in_words(behind), ", without call #", newest, " of the others\n");
  return text;
}

}  // namespace

std::string compare_records(const std::string& folder) {
  std::map<int, Record> records;
  int ranks = 0;
  if (io::exists(folder))
    for (const std::string& name : io::names_in(folder)) {
      if (!name.starts_with("rank-") || !name.ends_with(".jsonl")) continue;
      Record record = read_record(folder + "/" + name);
      ranks = std::max({ranks, record.ranks, record.rank + 1});
      records.insert_or_assign(record.rank, std::move(record));
    }
  check(!records.empty(), "flight: no record of calls in ", folder,
        "; ranks write theirs where one fails, and on SIGUSR1");
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
