#include "reprise/distributed/flight/records.h"

#include <algorithm>

#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/io/json.h"

namespace reprise::distributed {
namespace {

constexpr int most_ranks = 1 << 20;
constexpr uint64_t most_bytes = uint64_t(256) << 20;

std::vector<int64_t> integers_in(io::JsonReader& json) {
  std::vector<int64_t> all;
  json.array([&] { all.push_back(json.integer()); });
  return all;
}

// 0 where there is none.
double time_in(io::JsonReader& json) {
  if (json.peek() != io::JsonReader::Kind::null) return json.number();
  json.skip();
  return 0;
}

// A line of one begins so.
constexpr const char* computation_mark = "{\"computation\":";

RecordedComputation read_computation(const std::string& line, const std::string& path, size_t offset) {
  RecordedComputation computation;
  io::JsonReader json(line, path, offset);
  json.object([&](const std::string& key) {
    if (key == "computation") return void(computation.name = json.string());
    if (key == "step") return void(computation.step = json.integer());
    if (key == "begun") return void(computation.begun = json.number());
    if (key == "done") return void(computation.done = json.number());
    json.skip();
  });
  json.end();
  return computation;
}

RecordedCall read_call(const std::string& line, const std::string& path, size_t offset) {
  RecordedCall recorded;
  Call& call = recorded.call;
  io::JsonReader json(line, path, offset);
  json.object([&](const std::string& key) {
    if (key == "group") return void(call.group = json.string());
    if (key == "sequence") return void(call.sequence = json.integer());
    if (key == "operation") return void(call.operation = json.string());
    if (key == "words") return void(call.words = json.string());
    if (key == "label") return void(call.label = json.string());
    if (key == "dtype") return void(call.words += (call.words.empty() ? "" : " ") + json.string());
    if (key == "shape") return void(call.words += detail::join(' ', Shape(integers_in(json))));
    if (key == "issued") return void(recorded.issued = time_in(json));
    if (key == "begun") return void(recorded.begun = time_in(json));
    if (key == "done") return void(recorded.done = time_in(json));
    json.skip();
  });
  json.end();
  return recorded;
}

void read_head(CallRecord& record, const std::string& line, const std::string& path) {
  io::JsonReader json(line, path);
  json.object([&](const std::string& key) {
    if (key == "rank") return void(record.rank = int(json.integer()));
    if (key == "ranks") return void(record.ranks = int(json.integer()));
    if (key == "reason") return void(record.reason = json.string());
    if (key == "clock_offset") return void(record.clock_offset = json.number());
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

CallRecord read_record(const std::string& path) {
  const std::string text = io::read_file(path, most_bytes);
  CallRecord record;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (begin == 0) {
      read_head(record, line, path);
    } else if (line.starts_with(computation_mark)) {
      record.computations.push_back(read_computation(line, path, begin));
    } else {
      RecordedCall recorded = read_call(line, path, begin);
      record.calls[track_of(recorded.call)][recorded.call.sequence] = std::move(recorded);
    }
    begin = end + 1;
  }
  check(record.rank >= 0 && record.rank < record.ranks && record.ranks <= most_ranks, path, ": rank ",
        record.rank, " of ", record.ranks);
  return record;
}

}  // namespace

std::map<int, CallRecord> read_records(const std::string& folder) {
  std::map<int, CallRecord> records;
  if (io::exists(folder))
    for (const std::string& name : io::names_in(folder)) {
      if (!name.starts_with("rank-") || !name.ends_with(".jsonl")) continue;
      CallRecord record = read_record(folder + "/" + name);
      const int rank = record.rank;
      records.insert_or_assign(rank, std::move(record));
    }
  check(!records.empty(), "flight: no record of calls in ", folder,
        "; ranks write theirs where one fails, and on SIGUSR1");
  return records;
}

std::string described(const RecordedCall& recorded) {
  Call call = recorded.call;
  if (call.operation == "recv") call.operation = "send";
  return description_of(call);
}

}  // namespace reprise::distributed
