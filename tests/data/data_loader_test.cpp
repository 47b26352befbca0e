// Batches of samples that are tensors: which rows they have, whoever makes them.
// labels: concurrency
#include "reprise/data/data_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::expect_error;

// Sample i is ((i, 10 i), i).
struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  std::pair<Tensor, Tensor> operator[](int64_t index) const {
    return {Tensor::from<float>({float(index), float(10 * index)}, {2}), Tensor::from<int64_t>({index}, {})};
  }
};

std::vector<int64_t> labels_of(const TensorList& batch) { return batch.at(1).to_vector<int64_t>(); }

TEST(DataLoader, StacksTheFieldsOfItsSamples) {
  const Numbers numbers{10};
  DataLoader loader(numbers, {.batch = 4});
  const TensorList batch = loader.batch(0);
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].shape(), (Shape{4, 2}));
  EXPECT_EQ(batch[1].shape(), (Shape{4}));
  const std::vector<int64_t> labels = labels_of(batch);
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(batch[0].to_vector<double>()[size_t(2 * row)], double(labels[size_t(row)]));
    EXPECT_EQ(batch[0].to_vector<double>()[size_t(2 * row + 1)], double(10 * labels[size_t(row)]));
  }
}

// 7 samples, batches of 3: each epoch, straddled by batches, has each sample once, in an order of its own.
TEST(DataLoader, EachEpochHasEachSampleOnce) {
  const Numbers numbers{7};
  DataLoader loader(numbers, {.batch = 3, .seed = 5});
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < 7; ++step)
    for (int64_t label : labels_of(loader.batch(step))) seen.push_back(label);
  std::vector<std::vector<int64_t>> epochs;
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back(seen.begin() + int64_t(7 * epoch), seen.begin() + int64_t(7 * epoch + 7));
    std::vector<int64_t> sorted = epochs.back(), want(7);
    std::sort(sorted.begin(), sorted.end());
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(sorted, want) << "epoch " << epoch;
  }
  EXPECT_TRUE(epochs[0] != epochs[1] || epochs[1] != epochs[2]);
}

TEST(DataLoader, WithoutShufflingTheyStandAsTheyAre) {
  const Numbers numbers{5};
  DataLoader loader(numbers, {.batch = 3, .shuffle = false});
  EXPECT_EQ(labels_of(loader.batch(0)), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(labels_of(loader.batch(1)), (std::vector<int64_t>{3, 4, 0}));
  EXPECT_EQ(labels_of(loader.rows(3, 4)), (std::vector<int64_t>{3, 4})) << "an evaluation ends";
}

TEST(DataLoader, NoWorkerDepthShareOrRestartChangesARow) {
  const Numbers numbers{11};
  DataLoader whole(numbers, {.batch = 2, .accumulate = 4, .seed = 9, .workers = 0});
  std::vector<std::vector<int64_t>> want;
  for (int64_t step = 0; step < 6; ++step)
    for (int64_t micro = 0; micro < 4; ++micro) want.push_back(labels_of(whole.batch(step, micro)));
  for (int64_t workers : {0, 1, 3})
    for (int64_t prefetch : {1, 4})
      for (int64_t begin : {0, 2}) {
        DataLoader part(numbers, {.batch = 2,
                                  .accumulate = 4,
                                  .share_begin = begin,
                                  .share = 2,
                                  .seed = 9,
                                  .workers = workers,
                                  .prefetch = prefetch});
        for (int64_t step : {3, 4, 5, 0, 1})  // it goes on from step 3, and from the beginning
          for (int64_t micro : {begin, begin + 1})
            EXPECT_EQ(labels_of(part.batch(step, micro)), want[size_t(4 * step + micro)])
                << workers << " workers, step " << step << ", micro-batch " << micro;
      }
}

TEST(DataLoader, AKeyIsOfEpochAndSample) {
  DataLoader loader(
      3,
      [](const Order::Sample& sample) {
        return TensorList{Tensor::from<int64_t>({int64_t(sample.key), 3 * sample.epoch + sample.index}, {2})};
      },
      {.batch = 9});
  const std::vector<int64_t> rows = loader.batch(0)[0].to_vector<int64_t>();
  for (size_t i = 0; i < rows.size(); i += 2) EXPECT_EQ(rows[i], rows[i + 1]);
}

// A source that draws by the thread's generator, as a PyTorch user's would.
struct Noise {
  int64_t size() const { return 32; }
  Tensor operator[](int64_t) const { return rand({1}, DType::f64); }
};

std::vector<double> noise(uint64_t seed, int64_t workers) {
  const Noise source;
  DataLoader loader(source, {.batch = 8, .seed = seed, .workers = workers});
  std::vector<double> all;
  for (int64_t step = 0; step < 8; ++step)  // two epochs
    for (double x : loader.batch(step)[0].to_vector<double>()) all.push_back(x);
  return all;
}

TEST(DataLoader, WhatSamplesDrawIsOfSeedEpochAndIndex) {
  manual_seed(3);
  const std::vector<double> want = noise(7, 0);
  EXPECT_EQ(std::set<double>(want.begin(), want.end()).size(), 64u)
      << "each sample of each epoch has its own";
  for (int64_t workers : {0, 1, 4}) EXPECT_EQ(noise(7, workers), want) << workers << " workers";
  EXPECT_NE(noise(8, 2), want);
  const Noise source;
  DataLoader loader(source, {.seed = 7});
  EXPECT_EQ(loader.rows(4, 3)[0].to_vector<double>(), loader.rows(4, 3)[0].to_vector<double>());
  const double drawn = rand({1}, DType::f64).item();
  manual_seed(3);
  EXPECT_EQ(rand({1}, DType::f64).item(), drawn) << "the caller's own generator goes on where it was";
}

TEST(DataLoader, WhatIsWrongIsAnErrorWithTheSample) {
  const auto sample = [](const Order::Sample& s) -> TensorList {
    if (s.index == 2) fail("no such sample: 2");
    return {Tensor::zeros({s.index == 1 ? 3 : 2})};
  };
  for (int64_t workers : {0, 2}) {
    DataLoader loader(4, sample, {.batch = 2, .shuffle = false, .workers = workers});
    expect_error([&] { loader.batch(0); },
                 "data_loader: sample 1: field 0 is f32(3,), that of the first of its batch");
    expect_error([&] { loader.batch(1); }, "no such sample: 2");
    expect_error([&] { loader.batch(1, 1); }, "data_loader: micro-batch 1 in step 1, of those from 0 to 0");
    expect_error([&] { loader.rows(4, 1); }, "data_loader: 1 rows from 4, of 4");
  }
  expect_error([&] { DataLoader(4, sample, {.batch = 0}); }, "data_loader: 1 micro-batches of 0 rows");
  expect_error([&] { DataLoader(4, sample, {.accumulate = 2, .share_begin = 1, .share = 2}); },
               "data_loader: a share");
  expect_error([&] { DataLoader(0, sample, {}); }, "0");
}

}  // namespace
}  // namespace reprise::data
