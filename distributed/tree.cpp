#include "reprise/distributed/tree.h"

#include <algorithm>

#include "reprise/core/error.h"

namespace reprise::distributed {

bool are_siblings(const TreeNode& left, const TreeNode& right) {
  return left.size == right.size && left.begin + left.size == right.begin &&
         left.begin % (2 * left.size) == 0;
}

std::vector<TreeNode> nodes_of(int64_t begin, int64_t end) {
  std::vector<TreeNode> nodes;
  while (begin < end) {
    int64_t size = 1;
    while (begin % (2 * size) == 0 && begin + 2 * size <= end) size *= 2;
    nodes.push_back({begin, size});
    begin += size;
  }
  return nodes;
}

LeafRange leaves_of_rank(int rank, int ranks, int64_t leaves) {
  check(leaves >= 1, "share: ", leaves, " micro-batches; a step has at least one");
  const int64_t below = leaves / ranks * ranks;
  const std::string nearest =
      below ? detail::join(below, " or ", below + ranks, " are") : detail::join(ranks, " is the nearest");
  check(leaves % ranks == 0, "share: ", leaves, " micro-batches are no multiple of ", ranks, " ranks; ",
        nearest);
  const int64_t each = leaves / ranks;
  return {rank * each, (rank + 1) * each};
}

int64_t most_sums(const LeafRange& leaves) {
  // Nodes are many where the end's lower bits are ones: so with one bit of the begin or of the last end put the other way.
  size_t most = 0;
  auto end_at = [&](int64_t end) {
    if (leaves.begin < end && end < leaves.end) most = std::max(most, nodes_of(leaves.begin, end).size());
  };
  end_at(leaves.end - 1);
  for (int bit = 0; bit < 62; ++bit) {
    const int64_t one = int64_t(1) << bit;
    for (int64_t from : {leaves.begin, leaves.end - 1}) end_at((from ^ one) | (one - 1));
  }
  return int64_t(most);
}

std::vector<TreeStep> tree_steps(std::span<const TreeNode> nodes) {
  std::vector<TreeStep> steps;
  std::vector<TreeNode> stack;
  auto add = [&] {
    steps.push_back({TreeStep::Kind::add});
    const int64_t size = stack.back().size;
    stack.pop_back();
    stack.back().size += size;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    steps.push_back({TreeStep::Kind::push, int(i)});
    stack.push_back(nodes[i]);
    while (stack.size() > 1 && are_siblings(stack[stack.size() - 2], stack.back())) add();
  }
  while (stack.size() > 1) add();
  return steps;
}

}  // namespace reprise::distributed
