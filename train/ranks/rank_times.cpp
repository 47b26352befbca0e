#include "reprise/train/ranks/rank_times.h"

#include <algorithm>

namespace reprise::train {

std::vector<double> RankTimes::begin_step() {
  begun_at_ = Clock::now();
  before_ = group_.communication();
  return {own_seconds_};
}

void RankTimes::hear(const std::vector<double>& own_seconds) {
  if (group_.size() == 1 || own_seconds_ == 0) return;
  heard_ = own_seconds;
  for (const std::string& line : slow_.add(heard_))
    if (group_.rank() == 0) tell_(line);
}

void RankTimes::end_step(RunRecords::Values& values) {
  if (group_.size() == 1) return;
  const distributed::Communication now = group_.communication();
  const double exposed = now.exposed_seconds - before_.exposed_seconds;
  own_seconds_ = std::chrono::duration<double>(Clock::now() - begun_at_).count() - exposed;
  values.emplace_back("comm_seconds", now.seconds - before_.seconds);
  values.emplace_back("exposed_comm_seconds", exposed);
  values.emplace_back("comm_bytes", double(now.bytes - before_.bytes));
  if (heard_.empty()) return;
  const auto [least, most] = std::ranges::minmax_element(heard_);
  values.emplace_back("step_seconds_min", *least);
  values.emplace_back("step_seconds_max", *most);
  values.emplace_back("slowest_rank", double(most - heard_.begin()));
}

}  // namespace reprise::train
