// Merges in an open hash table.
#include "reprise/io/text/merge_table.h"

#include <random>

#include "reprise/core/error.h"

namespace reprise::io {

MergeTable::MergeTable(size_t most) : most_(most), slots_(most + most / 4 + 1, nothing) {
  std::random_device random;  // results do not depend on it, only where in the table they lie
  factor_ = uint64_t(random()) << 32 | random() | 1;
  merges_.reserve(most);
}

bool MergeTable::add(const Merge& merge) {
  invariant(merges_.size() < most_, "merge_table: full with ", most_);
  uint32_t& slot = slots_[slot_of(merge.left, merge.right)];
  if (slot != nothing) return false;
  slot = uint32_t(merges_.size());
  merges_.push_back(merge);
  return true;
}

}  // namespace reprise::io
