// Merges in an open hash table.
#include "reprise/io/text/merge_table.h"

#include <queue>
#include <random>

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

// A token of a word being merged, in a doubly linked list of positions; -1 ends it.
struct Piece {
  int32_t id;
  int64_t previous;
  int64_t next;
};

// Two neighbours that can be joined: the earliest merge first, then the leftmost.
struct Candidate {
  int32_t rank;
  int64_t position;
  int32_t left, right, joined;
  bool operator<(const Candidate& other) const {  // std::priority_queue gives the largest
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

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

// A queue keeps this O(n log n): a word may be a megabyte of one letter.
void append_merged(std::span<const int32_t> tokens, const MergeTable& merges, std::vector<int32_t>& ids) {
  std::vector<Piece> pieces(tokens.size());
  std::priority_queue<Candidate> candidates;
  auto offer = [&](int64_t position) {
    if (position < 0 || pieces[size_t(position)].next < 0) return;
    int32_t left = pieces[size_t(position)].id, right = pieces[size_t(pieces[size_t(position)].next)].id;
    if (int32_t rank = merges.find(left, right); rank >= 0) {
      candidates.push({rank, position, left, right, merges[size_t(rank)].joined});
    }
  };
  auto length = int64_t(tokens.size());
  for (int64_t i = 0; i < length; ++i)
    pieces[size_t(i)] = {tokens[size_t(i)], i - 1, i + 1 < length ? i + 1 : -1};
  for (int64_t i = 0; i < length; ++i) offer(i);
  while (!candidates.empty()) {
    Candidate best = candidates.top();
    candidates.pop();
    Piece& left = pieces[size_t(best.position)];
    // A candidate whose tokens were merged with others meanwhile is stale; merged-away pieces have id -1.
    if (left.id != best.left || left.next < 0 || pieces[size_t(left.next)].id != best.right) continue;
    Piece& right = pieces[size_t(left.next)];
    left.id = best.joined;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) pieces[size_t(left.next)].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (int64_t i = length > 0 ? 0 : -1; i >= 0; i = pieces[size_t(i)].next)
    ids.push_back(pieces[size_t(i)].id);
}

}  // namespace reprise::io
