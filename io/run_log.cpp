// Writing, resuming and reading metrics.jsonl.
#include "reprise/io/run_log.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"

namespace reprise::io {
namespace {

constexpr size_t longest_line = 16384;  // a record of a dozen metrics takes a few hundred bytes

// False if `line` is no record.
bool parse_record(std::string_view line, RunRecord& record) {
  size_t begin = line.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || line[begin] != '{') return false;
  bool has_step = false;
  record.metrics.clear();
  try {
    JsonReader json(line, "");
    json.object([&](std::string key) {
      if (key == "step") {
        record.step = json.integer();
        has_step = true;
      } else if (json.peek() == JsonReader::Kind::number) {
        record.metrics.emplace_back(std::move(key), json.number());
      } else if (json.peek() == JsonReader::Kind::null) {
        json.null();
        record.metrics.emplace_back(std::move(key), std::numeric_limits<double>::quiet_NaN());
      } else {
        json.skip();
      }
    });
    json.end();
  } catch (const Error&) { return false; }
  return has_step;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

void RunLogReader::read_more() {
  buffer_.erase(0, used_);
  used_ = 0;
  size_t kept = buffer_.size();
  buffer_.resize(longest_line);
  // A log that grows meanwhile is read as far as it was; one that shrinks ends.
  uint64_t left = std::max(file_.size(), file_offset_) - file_offset_;
  size_t bytes = size_t(std::min<uint64_t>(left, longest_line - kept));
  file_.read_at(file_offset_, buffer_.data() + kept, bytes);
  file_offset_ += bytes;
  buffer_.resize(kept + bytes);
}

RunLogReader::Line RunLogReader::read_line() {
  size_t end = buffer_.find('\n', used_);
  if (end == std::string::npos) {
    read_more();
    end = buffer_.find('\n');
  }
  bool has_end = end != std::string::npos, goes_on = !has_end && buffer_.size() == longest_line;
  line_ = std::string_view(buffer_).substr(used_, has_end ? end + 1 - used_ : std::string::npos);
  used_ += line_.size();
  if (line_.empty()) return Line::none;
  bool is_long = in_long_ || goes_on;
  if (goes_on && !in_long_) ++unreadable_;
  in_long_ = goes_on;
  return is_long ? Line::too_long : has_end ? Line::whole : Line::cut;
}

bool RunLogReader::next() {
  for (;;) {
    Line kind = read_line();
    if (kind == Line::none || kind == Line::cut) return false;
    if (kind == Line::too_long || is_blank(line_)) continue;
    if (parse_record(line_, record_)) return true;
    ++unreadable_;
  }
}

RunLog::RunLog(const std::string& path) : file_(File::create(path)) {}

RunLog RunLog::resume(const std::string& path, int64_t step) {
  std::error_code error;  // what is wrong with the path, opening it tells better
  if (!std::filesystem::exists(path, error)) return RunLog(File::append(path));
  int64_t unreadable = 0;
  bool ended = true;  // the last line that stays, which may be one that is too long and was cut
  // Calls `keep(line)` with what stays; says whether that is all.
  auto for_each_kept = [&](auto&& keep) {
    using Line = RunLogReader::Line;
    RunLogReader log(path);
    bool all = true;
    ended = true;
    for (Line kind = log.read_line(); kind != Line::none; kind = log.read_line()) {
      bool is_record = kind == Line::whole && parse_record(log.line_, log.record_);
      bool stays = kind != Line::cut && !(is_record && log.record_.step > step);
      if (kind == Line::whole && !is_record && !is_blank(log.line_)) ++log.unreadable_;
      if (stays) keep(log.line_);
      if (stays) ended = log.line_.back() == '\n';
      all = all && stays;
    }
    unreadable = log.unreadable_;
    return all;
  };
  if (!for_each_kept([](std::string_view) {})) {
    AtomicFile kept(path);
    for_each_kept([&](std::string_view line) { kept.write(line); });
    kept.commit();
  }
  RunLog log(File::append(path));
  if (!ended) log.file_.write_whole("\n");
  log.unreadable_ = unreadable;
  return log;
}

void RunLog::write(int64_t step, const std::vector<Metric>& metrics) {
  std::string line = "{\"step\":" + std::to_string(step);
  for (const Metric& metric : metrics)
    line += "," + json_quote(metric.name) + ":" + json_number(metric.value);
  file_.write_whole(line + "}\n");
}

void RunLog::close() {
  file_.sync();
  file_.close();
}

}  // namespace reprise::io
