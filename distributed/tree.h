// The one order in which numbers of several micro-batches or ranks are added: a binary tree over 0 ... n-1.
//
// Note [One tree]
// Addition of floats is not associative, so a sum over ranks has the bits of one process only if both add in the same order.
// A node of size 2^k, at a multiple of 2^k, adds its two halves; what no node holds in the end (n is no power of two) is folded
// from the right: over 0 ... 6 that is ((01)(23)) + ((45) + 6). A range of leaves, such as a rank's, is covered by few such
// nodes (one where its size is a power of two), each of which is a node of the whole tree: so the leaves of a range are added
// where they are, and only nodes travel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kernels/reduce/ordered_reduce.h"

namespace reprise::distributed {

/// The leaves begin ... begin + size - 1, summed. `size` is a power of two, `begin` a multiple of it.
struct TreeNode {
  int64_t begin = 0;  ///< its first leaf
  int64_t size = 1;   ///< its leaves
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// Whether one node adds just these two.
bool are_siblings(const TreeNode& left, const TreeNode& right);

/// The nodes, as few as can be, that hold the leaves begin ... end - 1, from left to right.
std::vector<TreeNode> nodes_of(int64_t begin, int64_t end);

/// The leaves of one rank: begin ... end - 1.
struct LeafRange {
  int64_t begin = 0;  ///< the first
  int64_t end = 0;    ///< the one behind the last
};

/// Of `leaves` leaves in all. Error, with the nearest counts that fit, unless `ranks` divides `leaves`.
LeafRange leaves_of_rank(int rank, int ranks, int64_t leaves);

/// The most partial sums that there are before the last of these leaves: none of one leaf, 1 of two, 2 of four, 3 of eight.
int64_t most_sums(const LeafRange& leaves);

using kernels::TreeStep;

/// The sum of a list of nodes, as steps that push its nodes and add the last two.
/// `nodes` hold the leaves 0 ... n-1, each once, from left to right.
std::vector<TreeStep> tree_steps(std::span<const TreeNode> nodes);

}  // namespace reprise::distributed
