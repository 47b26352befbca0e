// The order of sums: written out for small trees, and the same for every cut into ranges.
#include "reprise/distributed/tree.h"

#include <gtest/gtest.h>

#include <string>

#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

// The formula that the steps compute, from the leaves' formulas within each node.
std::string within(int64_t begin, int64_t size) {
  if (size == 1) return std::to_string(begin);
  return "(" + within(begin, size / 2) + "+" + within(begin + size / 2, size / 2) + ")";
}

std::string formula(const std::vector<TreeNode>& nodes) {
  std::vector<std::string> stack;
  for (const TreeStep& step : tree_steps(nodes)) {
    if (step.kind == TreeStep::Kind::push) {
      const TreeNode& node = nodes[size_t(step.node)];
      stack.push_back(within(node.begin, node.size));
      continue;
    }
    const std::string right = stack.back();
    stack.pop_back();
    stack.back() = "(" + stack.back() + "+" + right + ")";
  }
  return stack.size() == 1 ? stack[0] : "";
}

std::vector<TreeNode> nodes_of_ranks(int ranks, int64_t leaves) {
  std::vector<TreeNode> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const LeafRange range = leaves_of_rank(rank, ranks, leaves);
    for (const TreeNode& node : nodes_of(range.begin, range.end)) all.push_back(node);
  }
  return all;
}

TEST(Tree, IsWrittenOut) {
  const std::vector<std::string> want{
      "0",
      "(0+1)",
      "((0+1)+2)",
      "((0+1)+(2+3))",
      "(((0+1)+(2+3))+4)",
      "(((0+1)+(2+3))+(4+5))",
      "(((0+1)+(2+3))+((4+5)+6))",
      "(((0+1)+(2+3))+((4+5)+(6+7)))",
      "((((0+1)+(2+3))+((4+5)+(6+7)))+8)",
      "((((0+1)+(2+3))+((4+5)+(6+7)))+(8+9))",
      "((((0+1)+(2+3))+((4+5)+(6+7)))+((8+9)+10))",
      "((((0+1)+(2+3))+((4+5)+(6+7)))+((8+9)+(10+11)))",
  };
  for (size_t n = 1; n <= want.size(); ++n)
    EXPECT_EQ(formula(nodes_of_ranks(int(n), int64_t(n))), want[n - 1]);
}

TEST(Tree, IsTheSameHoweverRanksShareIt) {
  for (int64_t leaves = 1; leaves <= 64; ++leaves) {
    const std::string want = formula(nodes_of_ranks(int(leaves), leaves));
    for (int ranks = 1; ranks <= leaves; ++ranks)
      if (leaves % ranks == 0) {
        EXPECT_EQ(formula(nodes_of_ranks(ranks, leaves)), want) << leaves << " leaves, " << ranks << " ranks";
      }
  }
}

TEST(Tree, RangesHaveFewNodes) {
  using Nodes = std::vector<TreeNode>;
  EXPECT_EQ(nodes_of(0, 8), (Nodes{{0, 8}}));
  EXPECT_EQ(nodes_of(8, 12), (Nodes{{8, 4}}));
  EXPECT_EQ(nodes_of(6, 12), (Nodes{{6, 2}, {8, 4}}));
  EXPECT_EQ(nodes_of(5, 10), (Nodes{{5, 1}, {6, 2}, {8, 2}}));
  EXPECT_EQ(nodes_of(3, 3), Nodes{});
}

// By pushing leaf after leaf.
TEST(Tree, MostSumsAreThoseBeforeTheLastLeaf) {
  for (int64_t begin = 0; begin < 40; ++begin) {
    std::vector<TreeNode> sums;
    size_t most = 0;
    for (int64_t leaf = begin; leaf < begin + 70; ++leaf) {
      EXPECT_EQ(most_sums({begin, leaf + 1}), int64_t(most)) << begin << ' ' << leaf;
      sums.push_back({leaf, 1});
      while (sums.size() > 1 && are_siblings(sums[sums.size() - 2], sums.back())) {
        sums.pop_back();
        sums.back().size *= 2;
      }
      most = std::max(most, sums.size());
    }
  }
  EXPECT_EQ(most_sums({0, int64_t(1) << 50}), 50);
}

TEST(Tree, OnlyHalvesOfOneNodeAreSiblings) {
  EXPECT_TRUE(are_siblings({4, 2}, {6, 2}));
  EXPECT_FALSE(are_siblings({6, 2}, {8, 2}));
  EXPECT_FALSE(are_siblings({0, 4}, {4, 2}));
  EXPECT_FALSE(are_siblings({0, 2}, {4, 2}));
}

TEST(Tree, LeavesAreAMultipleOfRanks) {
  EXPECT_EQ(leaves_of_rank(1, 3, 12).begin, 4);
  EXPECT_EQ(leaves_of_rank(1, 3, 12).end, 8);
  testing::expect_error([] { leaves_of_rank(0, 4, 10); }, "10 micro-batches are no multiple of 4 ranks",
                        "8 or 12 are");
  testing::expect_error([] { leaves_of_rank(0, 4, 3); }, "4 is the nearest");
  testing::expect_error([] { leaves_of_rank(0, 4, 0); }, "0 micro-batches");
}

}  // namespace
}  // namespace reprise::distributed
