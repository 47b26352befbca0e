// Share: which micro-batches of each step are made here, where other ranks make the others.
#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::data {

struct Share {
  int64_t accumulate = 1;  ///< micro-batches per step
  int64_t begin = 0;       ///< the first that is made here
  int64_t given = 0;       ///< how many follow; 0: all

  int64_t size() const { return given > 0 ? given : accumulate; }
  /// The number in the run of the place-th micro-batch of the share.
  int64_t number_of(int64_t place) const { return place / size() * accumulate + begin + place % size(); }
  /// The place of a step's micro-batch. Error, of `who`, if it is not one of the share.
  int64_t place_of(int64_t step, int64_t micro, std::string_view who) const {
    const int64_t end = begin + size();
    check(step >= 0 && micro >= begin && micro < end, who, ": micro-batch ", micro, " in step ", step,
          ", of those from ", begin, " to ", end - 1);
    return step * size() + micro - begin;
  }
};

/// Of a loader's options. Error, of `who`, if it is not within a step.
template <class Options>
Share share_of(const Options& o, std::string_view who) {
  check(o.share_begin >= 0 && o.share >= 0 && o.share_begin + o.share <= o.accumulate, who, ": a share of ",
        o.share, " micro-batches from ", o.share_begin, " of ", o.accumulate);
  return {o.accumulate, o.share_begin, o.share};
}

}  // namespace reprise::data
