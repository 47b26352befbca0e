// The tables of a byte-pair encoding, against maps.
#include "reprise/io/text/merge_table.h"

#include <gtest/gtest.h>

#include <map>

#include "reprise/core/error.h"
#include "reprise/core/random.h"
#include "reprise/io/text/token_table.h"

namespace reprise::io {
namespace {

TEST(MergeTable, FindsWhatAMapFinds) {
  constexpr size_t most = 5000;
  MergeTable table(most);
  std::map<std::pair<int32_t, int32_t>, int32_t> map;
  for (uint64_t i = 0; table.size() < most; ++i) {
    auto draw = philox_block(5, 0, i);
    auto left = int32_t(draw[0] % 200), right = int32_t(draw[1] % 200);
    bool is_new = map.emplace(std::pair(left, right), int32_t(table.size())).second;
    ASSERT_EQ(table.add({left, right, int32_t(i)}), is_new);
    if (is_new) { ASSERT_EQ(table[table.size() - 1].joined, int32_t(i)); }
  }
  for (int32_t left = 0; left < 200; ++left) {
    for (int32_t right = 0; right < 200; ++right) {
      auto found = map.find({left, right});
      ASSERT_EQ(table.find(left, right), found == map.end() ? -1 : found->second) << left << ", " << right;
    }
  }
  EXPECT_THROW(table.add({1000, 1000, 0}), Bug);
  EXPECT_EQ(MergeTable().find(1, 2), -1);
}

TEST(TokenTable, GivesAndFindsTokensByIdAndBytes) {
  TokenTable tokens({2, 0, 1, 1});
  tokens.set(3, "z");
  tokens.set(0, "ab");
  tokens.set(2, "b");
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_EQ(tokens[0], "ab");
  EXPECT_EQ(tokens[1], "");
  EXPECT_EQ(tokens[2], "b");
  EXPECT_EQ(tokens[3], "z");
  TokenIndex index(tokens);
  EXPECT_EQ(index.find("ab"), 0);
  EXPECT_EQ(index.find(""), 1);
  EXPECT_EQ(index.find("z"), 3);
  EXPECT_EQ(index.find("a"), -1);
  EXPECT_EQ(index.find("zz"), -1);
  EXPECT_EQ(index.find_twin(), -1);
  tokens.set(3, "b");
  EXPECT_GE(TokenIndex(tokens).find_twin(), 2);
  EXPECT_EQ(TokenTable().size(), 0u);
}

}  // namespace
}  // namespace reprise::io
