#include "reprise/apps/common/data_wait.h"

#include <fmt/core.h>

namespace reprise::apps {
namespace {

constexpr int64_t steps_at_once = 20;
constexpr double tolerable = 0.2;  // of a step's time

}  // namespace

std::string DataWait::add(double seconds, double waited, int64_t units) {
  if (told_ || steps_++ < 0) return {};
  seconds_ += seconds, waited_ += waited, units_ += units;
  if (steps_ < steps_at_once) return {};
  const double share = waited_ / seconds_, reached = double(units_) / seconds_,
               wanted = double(units_) / (seconds_ - waited_);
  steps_ = 0, units_ = 0, seconds_ = 0, waited_ = 0;
  if (!(share > tolerable)) return {};
  told_ = true;
  return fmt::format("waiting for {} takes {:.0f} % of a step: {:.0f} {}/s, without it {:.0f}; {}", unit_,
                     100 * share, reached, unit_, wanted, advice_);
}

}  // namespace reprise::apps
