// The merges of a byte-pair encoding, by rank and by the pair they join: 17 bytes a merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::io {

class MergeTable {
 public:
  /// Two tokens and the one they make.
  struct Merge {
    int32_t left, right, joined;
  };

  /// Room for `most` merges.
  explicit MergeTable(size_t most = 0);

  size_t size() const { return merges_.size(); }
  size_t most() const { return most_; }
  const Merge& operator[](size_t rank) const { return merges_[rank]; }
  /// Adds the merge of the next rank; false, and nothing changes, if the pair is there already.
  bool add(const Merge& merge);
  /// The rank of the merge of two tokens; -1 if there is none.
  int32_t find(int32_t left, int32_t right) const {
    uint32_t rank = slots_[slot_of(left, right)];
    return rank == nothing ? -1 : int32_t(rank);
  }

 private:
  static constexpr uint32_t nothing = UINT32_MAX;

  // Where the pair is, or where it would go: the first free place from where its hash points.
  size_t slot_of(int32_t left, int32_t right) const {
    uint64_t hash = ((uint64_t(uint32_t(left)) << 32 | uint32_t(right)) * factor_) >> 32;
    size_t slot = size_t(hash * slots_.size() >> 32);
    for (;; slot = slot + 1 == slots_.size() ? 0 : slot + 1) {
      if (slots_[slot] == nothing) return slot;
      const Merge& merge = merges_[slots_[slot]];
      if (merge.left == left && merge.right == right) return slot;
    }
  }

  size_t most_;
  uint64_t factor_;  // random and odd: a file cannot be made to collide
  std::vector<Merge> merges_;
  std::vector<uint32_t> slots_;  // ranks; a fifth is free
};

/// Joins neighbours, the earliest merge first and then the leftmost, until there is none, and appends what is left to `ids`.
void append_merged(std::span<const int32_t> tokens, const MergeTable& merges, std::vector<int32_t>& ids);

}  // namespace reprise::io
