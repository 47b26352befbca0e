// Shuffles, votes, reductions and matches over the lanes of a warp. Lanes that call one of them with the same
// mask meet there; none of them orders memory.
#pragma once

#include <cstring>
#include <type_traits>

#include "reprise/simt/emulator/runtime.h"

namespace reprise::simt {

uint64_t shuffle(uint32_t mask, uint64_t bits, unsigned source, Where where);
uint32_t ballot(uint32_t mask, bool predicate, Where where);
enum class Reduce { add, min, max, bit_and, bit_or, bit_xor };
int64_t reduce(uint32_t mask, int64_t value, Reduce op, Where where);
struct Match {
  uint32_t equal = 0;  ///< lanes with the same bits
  bool all = false;    ///< whether those are all that took part
};
Match match(uint32_t mask, uint64_t bits, Where where);
uint32_t active_lanes();

template <class T>
concept Shuffled = std::is_trivially_copyable_v<T> && sizeof(T) <= 8;

template <Shuffled T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// The value of lane `source`; a source outside of [first, end) means the lane's own.
template <Shuffled T>
T shuffle_value(uint32_t mask, T value, int source, int first, int end, Where where) {
  if (source < first || source >= end) source = int(self.lane);
  const uint64_t bits = shuffle(mask, bits_of(value), unsigned(source), where);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

}  // namespace reprise::simt

template <reprise::simt::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              reprise::simt::Here here = reprise::simt::Here::current()) {
  const int first = int(reprise::simt::self.lane) & ~(width - 1);
  return reprise::simt::shuffle_value(mask, value, first | (source & (width - 1)), 0, 32,
                                      {"__shfl_sync", here});
}
template <reprise::simt::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  reprise::simt::Here here = reprise::simt::Here::current()) {
  const int lane = int(reprise::simt::self.lane), end = (lane & ~(width - 1)) + width;
  return reprise::simt::shuffle_value(mask, value, lane ^ lane_mask, 0, end, {"__shfl_xor_sync", here});
}
template <reprise::simt::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   reprise::simt::Here here = reprise::simt::Here::current()) {
  const int lane = int(reprise::simt::self.lane), end = (lane & ~(width - 1)) + width;
  return reprise::simt::shuffle_value(mask, value, lane + int(delta), 0, end, {"__shfl_down_sync", here});
}
template <reprise::simt::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 reprise::simt::Here here = reprise::simt::Here::current()) {
  const int lane = int(reprise::simt::self.lane), first = lane & ~(width - 1);
  return reprise::simt::shuffle_value(mask, value, lane - int(delta), first, 32, {"__shfl_up_sync", here});
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::ballot(mask, predicate != 0, {"__ballot_sync", here});
}
inline int __any_sync(unsigned mask, int predicate,
                      reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::ballot(mask, predicate != 0, {"__any_sync", here}) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::ballot(mask, predicate == 0, {"__all_sync", here}) == 0;
}

/// The lanes that have not exited. CUDA promises less: those that happen to run together.
inline unsigned __activemask() { return reprise::simt::active_lanes(); }

template <class T>
requires(sizeof(T) == 4 || sizeof(T) == 8) unsigned __match_any_sync(
    unsigned mask, T value, reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::match(mask, reprise::simt::bits_of(value), {"__match_any_sync", here}).equal;
}
template <class T>
requires(sizeof(T) == 4 || sizeof(T) == 8) unsigned __match_all_sync(
    unsigned mask, T value, int* all_equal, reprise::simt::Here here = reprise::simt::Here::current()) {
  const auto result = reprise::simt::match(mask, reprise::simt::bits_of(value), {"__match_all_sync", here});
  *all_equal = result.all;
  return result.all ? result.equal : 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::add, {"__reduce_add_sync", here}));
}
inline int __reduce_add_sync(unsigned mask, int value,
                             reprise::simt::Here here = reprise::simt::Here::current()) {
  return int(reprise::simt::reduce(mask, value, reprise::simt::Reduce::add, {"__reduce_add_sync", here}));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value,
                                  reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::min, {"__reduce_min_sync", here}));
}
inline int __reduce_min_sync(unsigned mask, int value,
                             reprise::simt::Here here = reprise::simt::Here::current()) {
  return int(reprise::simt::reduce(mask, value, reprise::simt::Reduce::min, {"__reduce_min_sync", here}));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value,
                                  reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::max, {"__reduce_max_sync", here}));
}
inline int __reduce_max_sync(unsigned mask, int value,
                             reprise::simt::Here here = reprise::simt::Here::current()) {
  return int(reprise::simt::reduce(mask, value, reprise::simt::Reduce::max, {"__reduce_max_sync", here}));
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value,
                                  reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::bit_and, {"__reduce_and_sync", here}));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::bit_or, {"__reduce_or_sync", here}));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value,
                                  reprise::simt::Here here = reprise::simt::Here::current()) {
  return unsigned(
      reprise::simt::reduce(mask, value, reprise::simt::Reduce::bit_xor, {"__reduce_xor_sync", here}));
}
