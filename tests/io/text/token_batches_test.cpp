// Batches: targets are the next tokens, crops depend on (seed, step, row) alone, evaluation predicts each
// token once.
#include "reprise/io/text/token_batches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;

// Token i is i, so that a token tells its position.
TokenDataset counting(int64_t count) {
  std::vector<int32_t> ids(size_t(count), 0);
  std::iota(ids.begin(), ids.end(), 0);
  return TokenDataset::from_ids(ids, count);
}

TEST(RandomCrops, TargetsAreTheNextTokens) {
  TokenDataset data = counting(100);
  TokenBatch batch = RandomCrops(data, 7, 1).batch(0, 0, 5);
  EXPECT_EQ(batch.tokens.shape(), (Shape{5, 7}));
  EXPECT_EQ(batch.targets.dtype(), DType::i64);
  auto tokens = batch.tokens.to_vector<int64_t>(), targets = batch.targets.to_vector<int64_t>();
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(targets[i], tokens[i] + 1) << i;
    EXPECT_EQ(tokens[i], tokens[i - i % 7] + int64_t(i % 7)) << i;
  }
}

TEST(RandomCrops, ARowDoesNotDependOnHowRowsAreDealtOut) {
  TokenDataset data = counting(1000);
  RandomCrops crops(data, 8, 42);
  auto whole = crops.batch(3, 0, 12).tokens.to_vector<int64_t>();
  std::vector<int64_t> parts;
  for (int64_t first = 0; first < 12; first += 3) {
    for (int64_t token : RandomCrops(data, 8, 42).batch(3, first, 3).tokens.to_vector<int64_t>())
      parts.push_back(token);
  }
  EXPECT_EQ(parts, whole);
}

TEST(RandomCrops, StepsRowsAndSeedsDiffer) {
  TokenDataset data = counting(1000000);
  std::set<int64_t> starts;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (uint64_t step = 0; step < 10; ++step) {
      for (uint64_t row = 0; row < 10; ++row) starts.insert(RandomCrops(data, 8, seed).start(step, row));
    }
  }
  EXPECT_GE(starts.size(), 298u);  // 300 draws of 10^6: 0.04 collisions expected
}

TEST(RandomCrops, StartsCoverEveryPositionEvenly) {
  TokenDataset data = counting(20);
  RandomCrops crops(data, 10, 0);  // starts 0 to 9: the last target is token 19
  std::vector<int> counts(10);
  for (uint64_t row = 0; row < 10000; ++row) ++counts.at(size_t(crops.start(0, row)));
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);  // five standard deviations of 30
}

TEST(RandomCrops, RefusesDataShorterThanARow) {
  TokenDataset data = counting(8);
  EXPECT_EQ(RandomCrops(data, 7, 0).start(0, 0), 0);
  expect_error([&] { RandomCrops(data, 8, 0); }, "8 tokens", "context of 8");
  expect_error([&] { RandomCrops(data, 0, 0); }, "context of 0");
  expect_error([&] { RandomCrops(data, 4, 0).batch(0, 0, 0); }, "0 rows");
  expect_error([&] { RandomCrops(data, 4, 0).batch(-1, 0, 1); }, "step -1");
}

TEST(SequentialWindows, PredictEveryTokenExactlyOnce) {
  for (int64_t size : {2, 7, 8, 9, 15, 16, 17, 64, 65}) {
    for (int64_t rows : {1, 3, 100}) {
      TokenDataset data = counting(size);
      SequentialWindows windows(data, 8, rows);
      std::vector<int64_t> predicted;
      for (int64_t i = 0; i < windows.batches(); ++i) {
        TokenBatch batch = windows.batch(i);
        EXPECT_LE(batch.tokens.size(0), rows);
        auto tokens = batch.tokens.to_vector<int64_t>();
        for (int64_t target : batch.targets.to_vector<int64_t>()) predicted.push_back(target);
        for (size_t j = 0; j < tokens.size(); ++j) {
          ASSERT_EQ(predicted[predicted.size() - tokens.size() + j], tokens[j] + 1);
        }
      }
      std::vector<int64_t> all(size_t(size) - 1);
      std::iota(all.begin(), all.end(), 1);
      EXPECT_EQ(predicted, all) << size << " tokens, " << rows << " rows";
      EXPECT_EQ(windows.predictions(), size - 1);
    }
  }
}

TEST(SequentialWindows, RefusesWhatCannotBePredicted) {
  TokenDataset one = counting(1), two = counting(2);
  expect_error([&] { SequentialWindows(one, 8, 1); }, "one token");
  expect_error([&] { SequentialWindows(two, 8, 0); }, "0 rows");
  expect_error([&] { SequentialWindows(two, 8, 1).batch(1); }, "batch 1 of 1");
}

}  // namespace
}  // namespace reprise::io
