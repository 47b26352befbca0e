// Which ranks are slower than the others, for long enough to be told.
#pragma once

#include <string>
#include <vector>

namespace reprise::train {

/// A rank whose own time is 1.2 times the median of all for 20 steps in a row is told once, and again only after 20 steps in a
/// row in which it was not. Of an even number of ranks the median is the lower one of the two in the middle.
class SlowRanks {
 public:
  static constexpr int steps = 20;
  static constexpr double factor = 1.2;

  /// `hosts`: the name that the machine of each rank has, which is told where these differ; none: it is not.
  explicit SlowRanks(const std::vector<std::string>& hosts = {});

  /// The seconds of each rank in one step, without those in which it waited for others. Lines to tell: "rank 3, host b: 1.42 x
  /// the median step time of ranks for 20 steps", with the mean over these.
  std::vector<std::string> add(const std::vector<double>& own_seconds);

 private:
  struct Rank {
    int slow = 0, well = 0;  // steps in a row
    double ratios = 0;       // sum over the slow ones
    bool is_told = false;
  };
  std::string name_of(size_t rank) const;

  std::vector<std::string> hosts_;  // empty: they are not told
  std::vector<Rank> ranks_;
};

}  // namespace reprise::train
