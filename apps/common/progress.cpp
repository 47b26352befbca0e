// The progress line.
#include "reprise/apps/common/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>

#include "reprise/apps/common/output.h"
#include "reprise/core/memory.h"

namespace reprise::apps {

Progress::Progress(int64_t first_step, int64_t steps, std::string unit, Device device)
    : first_step_(first_step),
      steps_(steps),
      unit_(std::move(unit)),
      device_(device),
      terminal_(isatty(STDOUT_FILENO)),
      started_(Clock::now()),
      last_(started_) {}

void Progress::resume() {
  auto away = Clock::now() - paused_at_;
  not_training_ += away;
  last_ += away;
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

void Progress::update(int64_t step, double loss, std::optional<double> validation_loss, double lr,
                      int64_t units, bool force) {
  auto now = Clock::now();
  double taken = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  double current = taken > 0 ? double(units) / taken : 0;
  rate_ = rate_ == 0 ? current : 0.95 * rate_ + 0.05 * current;
  double interval = terminal_ ? 0.2 : 10;
  if (!force && std::chrono::duration<double>(now - shown_).count() < interval) return;
  shown_ = now;
  std::chrono::duration<double> trained = now - started_ - not_training_;
  double remaining = trained.count() / double(step - first_step_) * double(steps_ - step);
  std::string line =
      fmt::format("step {:>{}}/{}  loss {:.4f}", step, fmt::formatted_size("{}", steps_), steps_, loss);
  if (validation_loss) line += fmt::format("  val {:.4f}", *validation_loss);
  line +=
      fmt::format("  lr {:.2e}  {:.0f} {}/s  memory {}  eta {}", lr, rate_, unit_,
                  format_bytes(double(allocator(device_).stats().peak_reserved)), format_duration(remaining));
  report("{}{}{}", terminal_ ? "\r\x1b[K" : "", line, terminal_ ? "" : "\n");
  shown_step_ = step;
}

void Progress::break_line() {
  if (terminal_ && shown_step_ >= 0) report_text("\n");
  shown_step_ = -1;
}

std::string format_bytes(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit > 0 ? 1 : 0, units[unit]);
}

std::string format_duration(double seconds) {
  int64_t whole = std::isfinite(seconds) ? int64_t(std::max(0.0, seconds) + 0.5) : 0;
  int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
               : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace reprise::apps
