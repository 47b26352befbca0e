#include "reprise/train/ranks/slow_ranks.h"

#include <fmt/core.h>

#include <algorithm>

#include "reprise/distributed/hub/host_name.h"

namespace reprise::train {

SlowRanks::SlowRanks(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts)
    if (host != hosts.front()) hosts_ = hosts;
}

std::string SlowRanks::name_of(size_t rank) const {
  const bool is_named = rank < hosts_.size() && !hosts_[rank].empty();
  return fmt::format("rank {}{}", rank, is_named ? ", host " + distributed::shown_host(hosts_[rank]) : "");
}

std::vector<std::string> SlowRanks::add(const std::vector<double>& own_seconds) {
  std::vector<double> sorted = own_seconds;
  std::ranges::sort(sorted);
  const double median = sorted.at((sorted.size() - 1) / 2);
  ranks_.resize(own_seconds.size());
  std::vector<std::string> lines;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (own_seconds[i] < factor * median || median <= 0) {
      rank.slow = 0, rank.ratios = 0;
      if (++rank.well >= steps) rank.is_told = false;
      continue;
    }
    rank.well = 0;
    rank.ratios += own_seconds[i] / median;
    if (++rank.slow < steps || rank.is_told) continue;
    rank.is_told = true;
    lines.push_back(fmt::format("{}: {:.2f} x the median step time of ranks for {} steps", name_of(i),
                                rank.ratios / rank.slow, rank.slow));
  }
  return lines;
}

}  // namespace reprise::train
