// Writing, resuming and reading metrics.jsonl.
#include "reprise/io/run_log.h"

#include <filesystem>
#include <limits>
#include <optional>

#include "reprise/core/error.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/json.h"

namespace reprise::io {
namespace {

RunRecord parse_record(std::string_view line, const std::string& path, size_t offset) {
  JsonReader json(line, path, offset);
  std::optional<int64_t> step;
  RunRecord record;
  json.object([&](std::string key) {
    if (key == "step") {
      step = json.integer();
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
  if (!step) json.fail_at(offset, "no step in the record");
  record.step = *step;
  return record;
}

// Calls `body(line, record)` for each whole line.
template <class Body>
void for_each_record(const std::string& text, const std::string& path, Body&& body) {
  for (size_t start = 0; start < text.size();) {
    size_t stop = text.find('\n', start);
    if (stop == std::string::npos) return;
    std::string_view line(text.data() + start, stop + 1 - start);
    if (line.find_first_not_of(" \t\r\n") != std::string_view::npos)
      body(line, parse_record(line, path, start));
    start = stop + 1;
  }
}

}  // namespace

RunLog::RunLog(const std::string& path) : file_(File::create(path)) {}

RunLog RunLog::resume(const std::string& path, int64_t step) {
  std::error_code error;  // what is wrong with the path, opening it tells better
  if (std::filesystem::exists(path, error)) {
    std::string text = read_file(path), kept;
    for_each_record(text, path, [&](std::string_view line, const RunRecord& record) {
      if (record.step <= step) kept += line;
    });
    if (kept != text) write_file(path, kept);
  }
  return RunLog(File::append(path));
}

void RunLog::write(int64_t step, const std::vector<Metric>& metrics) {
  std::string line = "{\"step\":" + std::to_string(step);
  for (const Metric& metric : metrics)
    line += "," + json_quote(metric.name) + ":" + json_number(metric.value);
  file_.write(line + "}\n");
}

void RunLog::close() {
  file_.sync();
  file_.close();
}

std::vector<RunRecord> read_run_log(const std::string& path) {
  std::vector<RunRecord> records;
  std::string text = read_file(path);
  for_each_record(text, path,
                  [&](std::string_view, RunRecord record) { records.push_back(std::move(record)); });
  return records;
}

}  // namespace reprise::io
