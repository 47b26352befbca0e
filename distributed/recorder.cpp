#include "reprise/distributed/recorder.h"

#include <unistd.h>

#include <chrono>

#include "reprise/core/quote.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"

namespace reprise::distributed {
namespace {

std::string time_of(double seconds) { return seconds > 0 ? io::json_number(seconds) : "null"; }

std::string quoted(const std::string& text) { return io::json_quote(printable(text)); }

std::string line_of(const RecordedCall& recorded) {
  const Call& call = recorded.call;
  TextStream line;
  line << "{\"group\":" << quoted(call.group) << ",\"sequence\":" << call.sequence
       << ",\"operation\":" << quoted(call.operation) << ",\"words\":" << quoted(call.words);
  if (call.dtype) {
    line << ",\"dtype\":" << quoted(std::string(name_of(*call.dtype))) << ",\"shape\":[";
    for (int i = 0; i < call.shape.size(); ++i) line << (i ? "," : "") << call.shape[i];
    line << ']';
  }
  line << ",\"label\":" << quoted(call.label) << ",\"issued\":" << time_of(recorded.issued)
       << ",\"begun\":" << time_of(recorded.begun) << ",\"done\":" << time_of(recorded.done) << "}\n";
  return line.str();
}

std::string line_of(const RecordedComputation& computation) {
  return detail::join("{\"computation\":", quoted(computation.name), ",\"step\":", computation.step,
                      ",\"begun\":", time_of(computation.begun), ",\"done\":", time_of(computation.done),
                      "}\n");
}

}  // namespace

double recorded_now() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

int64_t CallTrack::issue(const Call& call) {
  std::lock_guard lock(mutex_);
  calls_.push_back({.call = call, .issued = recorded_now()});
  if (calls_.size() > most_calls) calls_.pop_front(), ++forgotten_;
  return forgotten_ + int64_t(calls_.size()) - 1;
}

RecordedCall* CallTrack::find(int64_t number) {
  return number < forgotten_ ? nullptr : &calls_[size_t(number - forgotten_)];
}

void CallTrack::begin(int64_t number) {
  std::lock_guard lock(mutex_);
  if (RecordedCall* call = find(number)) call->begun = recorded_now();
}

void CallTrack::end(int64_t number) {
  std::lock_guard lock(mutex_);
  if (RecordedCall* call = find(number)) call->done = recorded_now();
}

std::deque<RecordedCall> CallTrack::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::shared_ptr<CallTrack> Recorder::add_group() {
  auto track = std::make_shared<CallTrack>();
  std::lock_guard lock(mutex_);
  tracks_.remove_if([](const auto& one) { return one.expired(); });
  tracks_.push_back(track);
  return track;
}

void Recorder::add(RecordedComputation computation) {
  std::lock_guard lock(mutex_);
  computations_.push_back(std::move(computation));
  if (computations_.size() > most_computations) computations_.pop_front();
}

void Recorder::set_folder(const std::string& folder) {
  std::lock_guard lock(mutex_);
  folder_ = folder;
}

std::string Recorder::write(const std::string& reason) {
  std::lock_guard alone(writing_);
  try {
    std::string folder;
    {
      std::lock_guard lock(mutex_);
      folder = folder_;
    }
    if (folder.empty()) return "";
    const std::string path = detail::join(folder, "/rank-", rank_, ".jsonl"), lines = text(reason);
    io::make_folders_durable(folder);
    io::write_file(path, lines);
    return path;
  } catch (const std::exception&) { return ""; }  // what is told must not hang on a full disk
}

std::string Recorder::text(const std::string& reason) {
  std::lock_guard lock(mutex_);
  std::string lines = detail::join("{\"rank\":", rank_, ",\"ranks\":", ranks_, ",\"pid\":", ::getpid(),
                                   ",\"time\":", time_of(recorded_now()),
                                   ",\"clock_offset\":", io::json_number(clock_offset_ ? clock_offset_() : 0),
                                   ",\"reason\":", quoted(reason), "}\n");
  for (const auto& one : tracks_)
    if (const auto track = one.lock())
      for (const RecordedCall& call : track->calls()) lines += line_of(call);
  for (const RecordedComputation& computation : computations_) lines += line_of(computation);
  return lines;
}

}  // namespace reprise::distributed
