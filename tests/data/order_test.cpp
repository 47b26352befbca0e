// Order: each image once per epoch and repeat, in orders that no statistic can tell from chance.
#include "reprise/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>

#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::expect_error;

double chi_square(const std::vector<int>& counts) {
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / double(counts.size());
  double sum = 0;
  for (int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Counts, over 1,000 orders of four images, of each of their 24 permutations.
template <class OrderOf>
std::vector<int> permutations_of_four(OrderOf&& order_of) {
  std::map<std::vector<uint32_t>, int> seen;
  for (int trial = 0; trial < 1000; ++trial) ++seen[order_of(trial)];
  std::vector<int> counts(24, 0);
  EXPECT_LE(seen.size(), 24u);
  std::transform(seen.begin(), seen.end(), counts.begin(), [](const auto& entry) { return entry.second; });
  return counts;
}

TEST(Order, IsUniform) {
  // The 0.001 and 0.999 quantiles of chi-square with 23 degrees of freedom.
  constexpr double low = 7.529, high = 49.728;
  std::vector<uint32_t> order;
  const double over_seeds = chi_square(permutations_of_four([&](int seed) {
    permute(4, uint64_t(seed), 0, order);
    return order;
  }));
  EXPECT_GT(over_seeds, low);
  EXPECT_LT(over_seeds, high);
  const double over_epochs = chi_square(permutations_of_four([&](int epoch) {
    permute(4, 1, epoch, order);
    return order;
  }));
  EXPECT_GT(over_epochs, low);
  EXPECT_LT(over_epochs, high);
}

TEST(Order, PutsEveryImageAtEveryPlaceAlike) {
  // 1,000 seeds, 1,000 images, tenths of the images at tenths of the places: each row of the table is a
  // chi-square with 9 degrees of freedom, whose 0.0001 and 0.9999 quantiles these are (for ten rows).
  std::vector<std::vector<int>> counts(10, std::vector<int>(10, 0));
  std::vector<uint32_t> order;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    permute(1000, seed, 3, order);
    for (size_t tenth = 0; tenth < 10; ++tenth) ++counts[tenth][order[tenth * 111] / 100];
  }
  for (const auto& row : counts) {
    EXPECT_GT(chi_square(row), 0.661);
    EXPECT_LT(chi_square(row), 33.720);
  }
}

TEST(Order, HasEachSampleOncePerEpoch) {
  for (int64_t images : {1, 7, 1000, 60'000})
    for (int64_t repeats : {1, 3}) {
      const Order order(images, 5, repeats);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int> seen(size_t(images * repeats), 0);
        for (int64_t place = 0; place < images * repeats; ++place) {
          const Order::Sample sample = order.at(epoch * images * repeats + place);
          ASSERT_EQ(sample.epoch, epoch);
          ASSERT_EQ(sample.key, uint64_t((epoch * images + sample.index) * repeats + sample.repeat));
          ++seen[size_t(sample.index * repeats + sample.repeat)];
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), images * repeats) << images << ' ' << repeats;
      }
    }
}

TEST(Order, OfAnotherEpochOrSeedIsAnother) {
  std::vector<uint32_t> first, other;
  permute(1000, 5, 0, first);
  permute(1000, 5, 1, other);
  EXPECT_NE(first, other);
  permute(1000, 6, 0, other);
  EXPECT_NE(first, other);
}

TEST(Order, LetsTwoImagesTakeTurnsAtTheirRepeats) {
  for (int64_t images : {6, 7}) {
    std::vector<uint32_t> slots;
    permute(images, 9, 2, slots);
    const Order order(images, 9, 3);
    for (int64_t place = 0; place < 18; ++place) {
      const int64_t pair = place / 6, turn = place % 6;
      const Order::Sample sample = order.at(2 * order.positions_per_epoch() + place);
      EXPECT_EQ(sample.index, slots[size_t(2 * pair + turn % 2)]) << place;
      EXPECT_EQ(sample.repeat, turn / 2) << place;
    }
    for (int64_t turn = 0; images == 7 && turn < 3; ++turn)  // the seventh image has no partner
      EXPECT_EQ(order.at(2 * 21 + 18 + turn).index, slots[6]);
  }
  const Order even(1000, 9, 3);
  for (int64_t row = 0; row < 6000; row += 2) EXPECT_NE(even.at(row).index, even.at(row + 1).index) << row;
}

TEST(Order, IsTheSameAskedInAnyOrderByAnyThread) {
  const Order order(101, 3), again(101, 3);
  std::vector<Order::Sample> forward(606), backward(606);
  auto ask = [&](size_t from) {
    for (size_t position = from; position < 606; position += 2)
      forward[position] = order.at(int64_t(position));
  };
  std::thread other(ask, 1);
  ask(0);
  other.join();
  for (size_t position = 606; position-- > 0;) backward[position] = again.at(int64_t(position));
  EXPECT_EQ(forward, backward);
}

TEST(Order, RefusesWhatIsNoOrder) {
  expect_error([] { Order(0, 1); }, "order: the number of images must be in [1, 2^32): 0");
  expect_error([] { Order(int64_t(1) << 32, 1); }, "4294967296");
  expect_error([] { Order(5, 1, 0); }, "order: the number of repeats must be positive: 0");
  expect_error([] { Order(5, 1).at(-1); }, "order: a position is below 0: -1");
}

}  // namespace
}  // namespace reprise::data
