// The loader's promise: a batch is a function of seed and step, whatever makes it, and whenever.
// labels: concurrency
#include "reprise/data/loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/tests/data/counted_images.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::CountedImages;
using testing::expect_error;

PipelineOptions as_they_are() {
  return {.height = CountedImages::height,
          .width = CountedImages::width,
          .mean = {0.5, 0.4, 0.3},
          .deviation = {0.2, 0.3, 0.4}};
}

// Crops, flips, erases with noise and mixes.
Pipeline everything() {
  PipelineOptions options = as_they_are();
  options.erasing = ErasingOptions{.probability = 0.5};
  options.mixing = MixingOptions{.mixup = 0.8, .cutmix = 1, .mode = MixingMode::pair};
  Pipeline pipeline(options);
  pipeline.add(RandomCrop({.height = CountedImages::height, .width = CountedImages::width, .pad = 1}))
      .add(RandomFlip());
  return pipeline;
}

struct Bits {
  std::vector<float> images, targets;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits_of(const ImageBatch& batch) {
  Tensor targets = batch.targets.dtype() == DType::i64 ? batch.targets.to(DType::f32) : batch.targets;
  return {batch.images.to_vector<float>(), targets.to_vector<float>()};
}

std::vector<Bits> steps_of(const Pipeline& pipeline, const LoaderOptions& options, int64_t first,
                           int64_t end) {
  static const CountedImages images(23);
  ImageLoader loader(images, pipeline, options);
  std::vector<Bits> steps;
  for (int64_t step = first; step < end; ++step)
    for (int64_t micro = 0; micro < options.accumulate; ++micro)
      steps.push_back(bits_of(loader.batch(step, micro)));
  EXPECT_EQ(loader.misses(), 0);
  return steps;
}

// The indices of the images in a plain batch, from their first pixel: 17 i modulo 256 is another number for each i < 256.
std::vector<int64_t> indices_in(const ImageBatch& batch) {
  std::vector<int64_t> indices;
  std::vector<float> pixels = batch.images.to_vector<float>();
  const size_t row = pixels.size() / size_t(batch.images.size(0));
  for (size_t at = 0; at < pixels.size(); at += row) {
    auto value = int64_t(std::lround((double(pixels[at]) * 0.2 + 0.5) * 255));
    int64_t index = 0;
    while (CountedImages::value(index, 0, 0, 0) != value) ++index;
    indices.push_back(index);
  }
  return indices;
}

TEST(Loader, SameBitsAnyWorkers) {
  const Pipeline pipeline = everything();
  const LoaderOptions options{.batch = 6, .seed = 5, .workers = 0};
  const std::vector<Bits> expected = steps_of(pipeline, options, 0, 12);  // 72 rows: three epochs and a bit
  EXPECT_FALSE(expected[0] == expected[4]);
  for (int64_t workers : {0, 1, 2, 4})
    for (int64_t prefetch : {1, 2, 8}) {
      LoaderOptions other = options;
      other.workers = workers, other.prefetch = prefetch;
      EXPECT_TRUE(steps_of(pipeline, other, 0, 12) == expected)
          << workers << " workers, " << prefetch << " ahead";
    }
}

TEST(Loader, ResumesAtAnyStep) {
  const Pipeline pipeline = everything();
  const LoaderOptions options{.batch = 4, .accumulate = 2, .seed = 5, .workers = 2};
  const std::vector<Bits> expected = steps_of(pipeline, options, 0, 8);  // 64 rows
  for (int64_t begin = 1; begin < 8; ++begin) {
    const std::vector<Bits> rest(expected.begin() + 2 * begin, expected.end());
    EXPECT_TRUE(steps_of(pipeline, options, begin, 8) == rest) << "from step " << begin;
  }
}

TEST(Loader, AnswersAnyStepInAnyOrder) {
  const CountedImages images(23);
  const Pipeline pipeline = everything();
  const LoaderOptions options{.batch = 4, .seed = 5, .workers = 2};
  const std::vector<Bits> expected = steps_of(pipeline, options, 0, 10);
  ImageLoader loader(images, pipeline, options);
  for (int64_t step : {0, 1, 9, 2, 2, 0, 5, 6, 7, 3})
    EXPECT_TRUE(bits_of(loader.batch(step)) == expected[size_t(step)]) << step;
  EXPECT_EQ(loader.misses(), 5);  // 9, 2, 0, 5 and 3
}

// The rows of a step are the same however they are cut into micro-batches.
TEST(Loader, SameSamplesAnyMicroBatch) {
  Pipeline pipeline(as_they_are());
  const CountedImages images(23);
  auto rows_of = [&](int64_t batch, int64_t accumulate) {
    ImageLoader loader(images, pipeline, {.batch = batch, .accumulate = accumulate, .seed = 9, .workers = 2});
    std::vector<int64_t> rows;
    for (int64_t step = 0; step < 4; ++step)
      for (int64_t micro = 0; micro < accumulate; ++micro)
        for (int64_t index : indices_in(loader.batch(step, micro))) rows.push_back(index);
    return rows;
  };
  const std::vector<int64_t> expected = rows_of(12, 1);
  EXPECT_EQ(rows_of(6, 2), expected);
  EXPECT_EQ(rows_of(3, 4), expected);
  EXPECT_EQ(rows_of(1, 12), expected);
  std::map<int64_t, int> of_first_epoch;
  for (size_t i = 0; i < 23; ++i) ++of_first_epoch[expected[i]];
  EXPECT_EQ(of_first_epoch.size(), 23u) << "each image once per epoch, though batches straddle its end";
}

// Each rank is asked for its micro-batches alone, and its threads make no others ahead.
TEST(Loader, SameSamplesAnyRanks) {
  const Pipeline pipeline = everything();
  for (int64_t batch : {8, 16})
    for (int64_t accumulate : {4, 12}) {
      LoaderOptions options{.batch = batch, .accumulate = accumulate, .seed = 5, .repeats = 3, .workers = 1};
      const std::vector<Bits> expected = steps_of(pipeline, options, 0, 3);
      for (int64_t ranks : {2, 4}) {
        static const CountedImages images(23);
        options.share = accumulate / ranks;
        std::vector<std::unique_ptr<ImageLoader>> loaders;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          options.share_begin = rank * options.share;
          loaders.push_back(std::make_unique<ImageLoader>(images, pipeline, options));
        }
        std::vector<Bits> got;
        for (int64_t step = 0; step < 3; ++step)
          for (int64_t micro = 0; micro < accumulate; ++micro)
            got.push_back(bits_of(loaders[size_t(micro / options.share)]->batch(step, micro)));
        EXPECT_TRUE(got == expected) << batch << ' ' << accumulate << ' ' << ranks;
        for (const auto& loader : loaders) EXPECT_EQ(loader->misses(), 0);
        expect_error([&] { loaders[1]->batch(3, 0); },
                     "image_loader: micro-batch 0 in step 3, of those from");
      }
    }
}

TEST(Loader, NormalisesAndLabels) {
  Pipeline pipeline(as_they_are());
  const CountedImages images(7);
  ImageLoader loader(images, pipeline, {.batch = 4, .seed = 3, .workers = 1});
  ImageBatch batch = loader.batch(0);
  ASSERT_EQ(batch.images.shape(), (Shape{4, 3, 6, 5}));
  const double mean[] = {0.5, 0.4, 0.3}, deviation[] = {0.2, 0.3, 0.4};
  std::vector<int64_t> indices = indices_in(batch), labels = batch.targets.to_vector<int64_t>();
  std::vector<float> got = batch.images.to_vector<float>();
  size_t at = 0;
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(labels[row], indices[row] % 3);
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < 6; ++y)
        for (int64_t x = 0; x < 5; ++x) {
          double want = (CountedImages::value(indices[row], y, x, c) / 255.0 - mean[c]) / deviation[c];
          ASSERT_NEAR(got[at++], want, 1e-6)
              << row << ' ' << c << ' ' << y << ' ' << x;  // three roundings of f32
        }
  }
}

// By hand from the pairs' mixes, in f64.
TEST(Loader, MixesPairsAndTheirTargets) {
  PipelineOptions mixed = as_they_are();
  mixed.mixing = MixingOptions{.mixup = 0.8, .cutmix = 1, .mode = MixingMode::pair};
  const Pipeline plain_pipeline(as_they_are()), pipeline(mixed);
  const CountedImages images(23);
  const LoaderOptions options{.batch = 4, .accumulate = 2, .seed = 5, .smoothing = 0.1, .workers = 1};
  ImageLoader plain_loader(images, plain_pipeline, options), loader(images, pipeline, options);
  int cut = 0;
  for (int64_t step = 0; step < 4; ++step)
    for (int64_t micro = 0; micro < 2; ++micro) {
      ImageBatch plain = plain_loader.batch(step, micro), batch = loader.batch(step, micro);
      std::vector<float> from = plain.images.to_vector<float>(), got = batch.images.to_vector<float>();
      std::vector<float> targets = batch.targets.to_vector<float>();
      std::vector<int64_t> labels = plain.targets.to_vector<int64_t>();
      for (size_t row = 0; row < 4; ++row) {
        Mix mix = pipeline.mix(5, step, micro * 2 + int64_t(row) / 2);
        cut += mix.cutmix && mix.box.height > 0;
        for (size_t i = 0; i < 90; ++i) {
          int64_t y = int64_t(i) / 5 % 6, x = int64_t(i) % 5;
          bool inside = y >= mix.box.top && y < mix.box.top + mix.box.height && x >= mix.box.left &&
                        x < mix.box.left + mix.box.width;
          double own = from[row * 90 + i], other = from[(row ^ 1) * 90 + i];
          double want = mix.cutmix ? (inside ? other : own) : mix.lambda * own + (1 - mix.lambda) * other;
          ASSERT_NEAR(got[row * 90 + i], want, 1e-5) << step << ' ' << micro << ' ' << row << ' ' << i;
        }
        for (int64_t c = 0; c < 3; ++c) {
          auto smooth = [&](int64_t label) { return 0.1 / 3 + (label == c ? 0.9 : 0); };
          double want = mix.lambda * smooth(labels[row]) + (1 - mix.lambda) * smooth(labels[row ^ 1]);
          ASSERT_NEAR(targets[row * 3 + size_t(c)], want, 1e-6);
        }
      }
    }
  EXPECT_GT(cut, 0) << "no pair was cut: the test sees nothing of CutMix";
}

TEST(Loader, AnImageThatCannotBeReadStopsItsStep) {
  Pipeline pipeline(as_they_are());
  const CountedImages images(40, {7, 31});
  for (int64_t workers : {0, 1, 4}) {
    ImageLoader loader(images, pipeline, {.batch = 40, .seed = 4, .workers = workers});
    std::string message = testing::error_of([&] { loader.batch(0); });
    EXPECT_NE(message.find(".png: made bad (image "), std::string::npos) << message;
    EXPECT_NE(message.find(" in epoch 0)"), std::string::npos) << message;
    // The first row that fails, whoever found it.
    static std::string first = message;
    EXPECT_EQ(message, first) << workers << " workers";
  }
}

TEST(Loader, OthersOfTheirClassStandInTheSameForAnyWorkers) {
  Pipeline pipeline(as_they_are());
  const CountedImages images(40, {7, 31});
  std::vector<int64_t> expected;
  for (int64_t workers : {0, 1, 4}) {
    ImageLoader loader(images, pipeline,
                       {.batch = 40, .seed = 4, .workers = workers, .bad_images = BadImages::substitute});
    ImageBatch batch = loader.batch(0);
    std::vector<int64_t> indices = indices_in(batch), labels = batch.targets.to_vector<int64_t>();
    for (size_t row = 0; row < indices.size(); ++row) {
      EXPECT_TRUE(indices[row] != 7 && indices[row] != 31);
      EXPECT_EQ(indices[row] % 3, labels[row]);
    }
    if (expected.empty()) expected = indices;
    EXPECT_EQ(indices, expected) << workers << " workers";
    EXPECT_EQ(loader.bad_images(),
              (std::vector<std::string>{"counted-7.png: made bad", "counted-31.png: made bad"}));
  }
}

TEST(Loader, TooManyBadImagesAreAnError) {
  Pipeline pipeline(as_they_are());
  std::set<int64_t> bad;
  for (int64_t i = 0; i < 11; ++i) bad.insert(3 * i);
  const CountedImages images(60, bad);
  ImageLoader loader(images, pipeline,
                     {.batch = 60, .seed = 4, .workers = 2, .bad_images = BadImages::substitute});
  expect_error([&] { loader.batch(0); }, "more than 10 of 60 images cannot be read");
}

TEST(Loader, RefusesWhatDoesNotFit) {
  const CountedImages images(10);
  const Pipeline mixing = everything(), plain(as_they_are());
  expect_error([&] { ImageLoader(images, mixing, {.batch = 5}); }, "image_loader: pairs of rows are mixed",
               "5 rows");
  expect_error([&] { ImageLoader(images, plain, {.batch = 0}); }, "image_loader: 1 micro-batches of 0 rows");
  ImageLoader loader(images, plain, {.batch = 2, .accumulate = 3});
  expect_error([&] { loader.batch(0, 3); }, "image_loader: micro-batch 3 in step 0, of those from 0 to 2");
  expect_error([&] { loader.batch(-1); }, "in step -1");
}

TEST(EvaluationBatches, HaveEveryImageOnceInOrder) {
  Pipeline pipeline(as_they_are());
  const CountedImages images(11, {4, 9, 10});
  EvaluationBatches batches(images, pipeline, 3);
  ASSERT_EQ(batches.batches(), 4);
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < 4; ++i) {
    EvaluationBatches::Batch batch = batches.at(i);
    if (!batch.images.defined()) continue;
    EXPECT_EQ(indices_in({.images = batch.images, .targets = {}}), batch.indices);
    for (size_t row = 0; row < batch.indices.size(); ++row)
      EXPECT_EQ(batch.labels[row], batch.indices[row] % 3);
    seen.insert(seen.end(), batch.indices.begin(), batch.indices.end());
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(batches.bad_images().size(), 3u);
  for (int64_t i = 0; i < batches.batches(); ++i) batches.at(i);
  EXPECT_EQ(batches.bad_images().size(), 3u) << "images are counted again when they are read again";
}

}  // namespace
}  // namespace reprise::data
