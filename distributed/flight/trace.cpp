#include "reprise/distributed/flight/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reprise/core/quote.h"
#include "reprise/distributed/flight/records.h"
#include "reprise/io/json.h"

namespace reprise::distributed {
namespace {

std::string name_event(const char* what, int rank, int row, const std::string& name) {
  return detail::join("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", rank, ",\"tid\":", row,
                      ",\"args\":{\"name\":", io::json_quote(printable(name)), "}},\n");
}

// Times in microseconds from `origin` on.
std::string slice_event(int rank, int row, const RecordedCall& recorded, double origin, double begin,
                        double end) {
  return detail::join("{\"ph\":\"X\",\"pid\":", rank, ",\"tid\":", row,
                      ",\"name\":", io::json_quote(printable(described(recorded))),
                      ",\"ts\":", std::llround(1e6 * (begin - origin)),
                      ",\"dur\":", std::llround(1e6 * std::max(0.0, end - begin)),
                      ",\"args\":{\"number\":", recorded.call.sequence,
                      ",\"done\":", recorded.done > 0 ? "true" : "false", "}},\n");
}

std::string slice_event(int rank, const RecordedComputation& computation, double origin) {
  return detail::join("{\"ph\":\"X\",\"pid\":", rank,
                      ",\"tid\":0,\"name\":", io::json_quote(printable(computation.name)),
                      ",\"ts\":", std::llround(1e6 * (computation.begun - origin)),
                      ",\"dur\":", std::llround(1e6 * std::max(0.0, computation.done - computation.begun)),
                      ",\"args\":{\"step\":", computation.step, "}},\n");
}

// With rank 0's times in the place of each rank's own; 0 stays what has not come.
std::map<int, CallRecord> on_one_clock(std::map<int, CallRecord> records) {
  for (auto& [rank, record] : records) {
    auto shift = [by = record.clock_offset](double& time) { time += time > 0 ? by : 0; };
    for (auto& [group, calls] : record.calls)
      for (auto& [number, recorded] : calls)
        shift(recorded.issued), shift(recorded.begun), shift(recorded.done);
    for (RecordedComputation& computation : record.computations)
      shift(computation.begun), shift(computation.done);
  }
  return records;
}

}  // namespace

std::string trace_of_records(const std::string& folder) {
  const std::map<int, CallRecord> records = on_one_clock(read_records(folder));
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const auto& [rank, record] : records) {
    for (const auto& [group, calls] : record.calls)
      for (const auto& [number, recorded] : calls) {
        first = std::min(first, recorded.issued);
        last = std::max({last, recorded.issued, recorded.begun, recorded.done});
      }
    for (const RecordedComputation& computation : record.computations) {
      first = std::min(first, computation.begun);
      last = std::max(last, computation.done);
    }
  }
  std::string events;
  for (const auto& [rank, record] : records) {
    events += name_event("process_name", rank, 0, detail::join("rank ", rank));
    if (!record.computations.empty()) events += name_event("thread_name", rank, 0, "computation");
    for (const RecordedComputation& computation : record.computations)
      events += slice_event(rank, computation, first);
    int row = 0;
    for (const auto& [group, calls] : record.calls) {
      const int waiting = ++row, in_progress = ++row;
      events += name_event("thread_name", rank, waiting, group + ", waiting");
      events += name_event("thread_name", rank, in_progress, group);
      for (const auto& [number, recorded] : calls) {
        const bool is_begun = recorded.begun > 0;
        events +=
            slice_event(rank, waiting, recorded, first, recorded.issued, is_begun ? recorded.begun : last);
        if (is_begun)
          events += slice_event(rank, in_progress, recorded, first, recorded.begun,
                                recorded.done > 0 ? recorded.done : last);
      }
    }
  }
  events.resize(events.size() - 2);  // the last comma
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace reprise::distributed
