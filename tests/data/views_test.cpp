// Several views of each image: the loader's rows are those that repeats of the sample would be, a pipeline each.
#include "reprise/data/views.h"

#include <gtest/gtest.h>

#include "reprise/data/loader.h"
#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/tests/data/counted_images.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::CountedImages;
using testing::expect_error;

PipelineOptions sides() { return {.height = CountedImages::height, .width = CountedImages::width}; }

Pipeline shifted() {
  Pipeline pipeline(sides());
  pipeline.add(RandomCrop({.height = CountedImages::height, .width = CountedImages::width, .pad = 2}))
      .add(RandomFlip());
  return pipeline;
}

Pipeline zoomed() {
  Pipeline pipeline(sides());
  pipeline.add(RandomResizedCrop(
      {.height = CountedImages::height, .width = CountedImages::width, .min_scale = 0.2, .max_scale = 0.4}));
  return pipeline;
}

std::vector<float> row_of(const Tensor& images, int64_t row) {
  return images.slice(0, row, row + 1).to_vector<float>();
}

/// What `pipeline` makes of image `index` with the draws of `key`.
std::vector<float> made(const Dataset& images, const Pipeline& pipeline, int64_t index, uint64_t key,
                        uint64_t seed) {
  std::vector<uint8_t> row(size_t(pipeline.row_bytes()));
  TransformScratch scratch;
  pipeline.read(images, {.index = index, .key = key}, seed, row, scratch);
  const std::vector<float> table = pipeline.table();
  const PipelineOptions& o = pipeline.options();
  std::vector<float> values;
  for (int64_t c = 0; c < o.channels; ++c)
    for (int64_t at = c; at < int64_t(row.size()); at += o.channels)
      values.push_back(table[size_t(c * 256 + row[size_t(at)])]);
  return values;
}

// 11 images, an odd number, in batches of 4: epochs end inside of a batch.
TEST(Views, AreDrawnAsRepeatsOfTheSample) {
  const CountedImages images(11);
  const Pipeline large = shifted(), small = zoomed();
  const Views views = {&large, &large, &small};
  const Order order(11, 5);
  for (int64_t workers : {0, 2}) {
    ImageLoader loader(images, views, {.batch = 4, .accumulate = 2, .seed = 5, .workers = workers});
    for (int64_t step = 0; step < 3; ++step)
      for (int64_t micro = 0; micro < 2; ++micro) {
        const ImageBatch batch = loader.batch(step, micro);
        ASSERT_EQ(batch.images.shape(), (Shape{12, 3, CountedImages::height, CountedImages::width}));
        ASSERT_EQ(batch.targets.shape(), Shape{4});
        for (int64_t row = 0; row < 4; ++row) {
          const Order::Sample sample = order.at(step * 8 + micro * 4 + row);
          for (int64_t view = 0; view < 3; ++view)
            EXPECT_EQ(row_of(batch.images, view * 4 + row),
                      made(images, *views[size_t(view)], sample.index, 3 * sample.key + uint64_t(view), 5))
                << "step " << step << ", row " << row << ", view " << view;
        }
      }
  }
}

TEST(Views, OfAPictureDiffer) {
  const CountedImages images(6);
  const Pipeline small = zoomed();
  ImageLoader loader(images, Views{&small, &small}, {.batch = 6, .seed = 1});
  const Tensor both = loader.batch(0).images;
  int64_t same = 0;
  for (int64_t row = 0; row < 6; ++row) same += row_of(both, row) == row_of(both, 6 + row);
  EXPECT_LT(same, 3) << "small boxes may meet by chance";
}

TEST(Views, OfEvaluationAreTheSameEachTimeWithoutWhatCannotBeRead) {
  const CountedImages images(11, {4, 9});
  const Pipeline large = shifted(), small = zoomed();
  EvaluationBatches batches(images, Views{&large, &small}, 4, 7);
  std::vector<int64_t> seen;
  for (int64_t number = 0; number < batches.batches(); ++number) {
    const EvaluationBatches::Batch batch = batches.at(number);
    const auto count = int64_t(batch.indices.size());
    ASSERT_EQ(batch.images.size(0), 2 * count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = batch.indices[size_t(i)];
      EXPECT_EQ(row_of(batch.images, i), made(images, large, index, uint64_t(2 * index), 7)) << index;
      EXPECT_EQ(row_of(batch.images, count + i), made(images, small, index, uint64_t(2 * index) + 1, 7))
          << index;
      seen.push_back(index);
    }
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 5, 6, 7, 8, 10}));
  EXPECT_EQ(batches.bad_images().size(), 2u);
}

TEST(Views, ThatDoNotFitAreRefused) {
  const CountedImages images(6);
  const Pipeline plain = shifted();
  PipelineOptions options = sides();
  options.height = 4;
  const Pipeline lower(options);
  options = sides();
  options.mean = {0, 0, 0};
  const Pipeline brighter(options);
  options = sides();
  options.erasing = ErasingOptions{};
  const Pipeline erased(options);
  auto refused = [&](const Views& views, const char* fact) {
    expect_error([&] { ImageLoader(images, views, {.batch = 2}); }, "image_loader: ", fact);
  };
  refused({}, "there are no views");
  refused({&plain, &lower}, "views of 6 x 5 x 3 and of 4 x 5 x 3");
  refused({&plain, &brighter}, "normalised alike");
  refused({&plain, &erased}, "neither erased nor mixed");
  expect_error([&] { EvaluationBatches(images, Views(), 2, 0); }, "evaluation_batches: there are no views");
}

}  // namespace
}  // namespace reprise::data
