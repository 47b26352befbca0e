// The progress line.
#include "reprise/train/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "reprise/core/bytes.h"
#include "reprise/core/memory.h"
#include "reprise/train/output.h"

namespace reprise::train {
namespace {

// A terminal that no line can be rewritten on.
bool is_dumb() {
  const char* kind = std::getenv("TERM");
  return kind && std::string_view(kind) == "dumb";
}

std::string join(const std::vector<LinePart>& parts) {
  std::string line;
  for (const LinePart& part : parts) line += (line.empty() ? "" : "  ") + part.text;
  return line;
}

}  // namespace

Progress::Progress(int64_t first_step, int64_t steps, std::string unit, Device device)
    : first_step_(first_step),
      steps_(steps),
      unit_(std::move(unit)),
      device_(device),
      terminal_(is_terminal() && !is_dumb()),
      started_(Clock::now()),
      last_(started_) {}

void Progress::resume() {
  auto away = Clock::now() - paused_at_;
  not_training_ += away;
  last_ += away;
}

void Progress::update(int64_t step, double loss, const std::optional<Validation>& validation, double lr,
                      int64_t units, bool force) {
  auto now = Clock::now();
  double taken = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  double current = taken > 0 ? double(units) / taken : 0;
  rate_ = rate_ == 0 ? current : 0.95 * rate_ + 0.05 * current;
  constexpr double interval = 0.2;
  bool is_due = terminal_ && std::chrono::duration<double>(now - shown_).count() >= interval;
  if (!force && !is_due) return;
  shown_ = now;
  std::chrono::duration<double> trained = now - started_ - not_training_;
  double remaining = trained.count() / double(step - first_step_) * double(steps_ - step);
  std::vector<LinePart> parts = {
      {fmt::format("step {:>{}}/{}", step, fmt::formatted_size("{}", steps_), steps_), 0},
      {fmt::format("loss {:.4f}", loss), 1}};
  if (validation) parts.push_back({fmt::format("val {:.4f}", validation->loss), 3});
  if (validation && validation->accuracy)
    parts.push_back({fmt::format("accuracy {:.2f} %", 100 * *validation->accuracy), 3});
  parts.insert(parts.end(), {{fmt::format("lr {:.2e}", lr), 4},
                             {fmt::format("{:.0f} {}/s", rate_, unit_), 5},
                             {"memory " + format_bytes(allocator(device_).stats().peak_held), 6},
                             {"eta " + format_duration(remaining), 2}});
  terminal_ ? rewrite(parts) : report("{}\n", join(parts));
  shown_step_ = step;
}

// The last column stays free: a character there would make some terminals begin another row. A line that has
// become longer than the rows fills two of them by now: it stays, and the next begins below.
void Progress::rewrite(const std::vector<LinePart>& parts) {
  size_t columns = size_t(terminal_columns());
  std::string line = fit_line(parts, columns - 1);
  report("{}\r\x1b[K{}", shown_step_ >= 0 && shown_columns_ >= columns ? "\n" : "", line);
  shown_columns_ = line.size();
}

void Progress::break_line() {
  if (terminal_ && shown_step_ >= 0) report_text("\n");
  shown_step_ = -1;
}

std::string fit_line(std::vector<LinePart> parts, size_t columns) {
  while (parts.size() > 1 && join(parts).size() > columns)
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; }));
  return join(parts).substr(0, columns);
}

std::string format_duration(double seconds) {
  int64_t whole = std::isfinite(seconds) ? int64_t(std::max(0.0, seconds) + 0.5) : 0;
  int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
               : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace reprise::train
