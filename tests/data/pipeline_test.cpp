// Pipelines: what they read, what each transform draws, what they say of themselves.
#include "reprise/data/pipeline.h"

#include <gtest/gtest.h>

#include "reprise/data/transforms/flip.h"
#include "reprise/data/transforms/random_crop.h"
#include "reprise/io/images/decode.h"
#include "reprise/io/images/jpeg.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"

namespace reprise::data {
namespace {

using testing::expect_error;
using testing::made_image;

/// Made images of some sizes; remembers how much of one was asked for.
class MadeImages : public Dataset {
 public:
  int64_t size() const override { return 3; }
  const std::vector<std::string>& class_names() const override { return names_; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t index) const override { return "made " + std::to_string(index); }
  void read(int64_t index, const io::DecodeOptions& options, io::Image& image) const override {
    image = made_image(30 + index, 40 - 5 * index, options.channels);
    read_ = {0, 0, image.height, image.width};
    if (options.region) cut(image, read_ = options.region(image.height, image.width));
  }
  mutable io::Box read_;  ///< tests have one thread

 private:
  std::vector<std::string> names_{"made"};
};

const PipelineOptions small{.height = 9, .width = 7};

std::vector<uint8_t> row_of(const Pipeline& pipeline, const Order::Sample& sample, uint64_t seed = 1) {
  std::vector<uint8_t> row(size_t(pipeline.row_bytes()));
  TransformScratch scratch;
  pipeline.read(MadeImages(), sample, seed, row, scratch);
  return row;
}

TEST(Pipeline, DecodesNoMoreThanItsCrop) {
  Pipeline pipeline(small);
  pipeline.add(RandomResizedCrop({.height = 9, .width = 7, .max_scale = 0.5})).add(RandomFlip());
  const MadeImages images;
  TransformScratch scratch;
  for (int64_t index = 0; index < 3; ++index) {
    std::vector<uint8_t> row(size_t(pipeline.row_bytes()));
    pipeline.read(images, {.index = index, .key = uint64_t(index)}, 1, row, scratch);
    EXPECT_LT(images.read_.height * images.read_.width, 0.6 * 30 * 40);
    io::Image whole = made_image(30 + index, 40 - 5 * index, 3);
    pipeline.transform(whole, 1, uint64_t(index), scratch);
    EXPECT_EQ(row, whole.pixels) << index;
  }
}

/// One large JPEG; remembers what a pipeline says of its target.
class OneJpeg : public Dataset {
 public:
  OneJpeg() {
    io::Image image;
    image.resize(360, 480, 3);
    for (int64_t y = 0; y < 360; ++y)
      for (int64_t x = 0; x < 480; ++x) {
        uint8_t* pixel = image.row(y) + 3 * x;
        pixel[0] = uint8_t(x / 2), pixel[1] = uint8_t(y / 2 + 60), pixel[2] = uint8_t((x + y) / 4);
      }
    file_ = io::encode_jpeg(image, 95);
  }
  int64_t size() const override { return 1; }
  const std::vector<std::string>& class_names() const override { return names_; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t) const override { return "one"; }
  void read(int64_t, const io::DecodeOptions& options, io::Image& image) const override {
    target_ = options.target;
    io::decode_image(file_, "one", options, image);
    decoded_ = {image.height, image.width};
  }
  mutable io::Size target_, decoded_;

 private:
  std::string file_;
  std::vector<std::string> names_{"one"};
};

TEST(Pipeline, DecodesFastWhereACropResamples) {
  const OneJpeg images;
  TransformScratch scratch;
  auto rows = [&](Decoding decoding, auto transform, uint64_t key) {
    Pipeline pipeline({.height = 20, .width = 30, .decoding = decoding});
    pipeline.add(transform);
    std::vector<uint8_t> row(size_t(pipeline.row_bytes()));
    pipeline.read(images, {.key = key}, 1, row, scratch);
    return row;
  };
  const RandomResizedCrop crop({.height = 20, .width = 30, .min_scale = 0.5});
  for (uint64_t key = 0; key < 10; ++key) {
    const auto exact = rows(Decoding::exact, crop, key);
    EXPECT_EQ(images.target_, io::Size{});
    const io::Size whole = images.decoded_;
    const auto fast = rows(Decoding::fast, crop, key);
    EXPECT_EQ(images.target_, (io::Size{20, 30}));
    EXPECT_NEAR(double(whole.height) / double(images.decoded_.height), 4, 0.1);  // at least 160 pixels high
    double differences = 0;
    for (size_t i = 0; i < exact.size(); ++i) differences += std::abs(exact[i] - fast[i]);
    // A slope of half a level per pixel, edges at most two pixels away: one level; and JPEG's own noise.
    EXPECT_LT(differences / double(exact.size()), 1.5) << key;
    EXPECT_NE(exact, fast);
  }
  const ResizeCenterCrop middle({.size = 30, .crop = 20});
  Pipeline pipeline({.height = 20, .width = 20, .decoding = Decoding::fast});
  pipeline.add(middle);
  std::vector<uint8_t> row(size_t(pipeline.row_bytes()));
  pipeline.read(images, {}, 1, row, scratch);
  EXPECT_EQ(images.target_, io::Size{}) << "its pixels must be the whole image's";
  EXPECT_TRUE(pipeline.text().ends_with("0.225, decoded fast")) << pipeline.text();
}

TEST(Pipeline, DrawsForTheSampleAlone) {
  Pipeline pipeline(small);
  pipeline.add(RandomResizedCrop({.height = 9, .width = 7})).add(RandomFlip());
  const auto row = row_of(pipeline, {.index = 1, .key = 4});
  EXPECT_EQ(row_of(pipeline, {.index = 1, .key = 4}), row);
  EXPECT_NE(row_of(pipeline, {.index = 1, .key = 5}), row);
  EXPECT_NE(row_of(pipeline, {.index = 1, .key = 4}, 2), row);
}

TEST(Pipeline, GivesEachTransformDrawsOfItsOwn) {
  Pipeline pipeline(small);
  pipeline.add(RandomCrop({.height = 9, .width = 7, .pad = 1})).add(RandomFlip());
  TransformScratch scratch;
  for (uint64_t key = 0; key < 20; ++key) {
    io::Image image = made_image(9, 7, 3), want = image;
    Draws crop = sample_draws(1, key, int(Decision::crop)), flip = sample_draws(1, key, int(Decision::flip));
    RandomCrop({.height = 9, .width = 7, .pad = 1}).apply(want, crop, scratch);
    RandomFlip().apply(want, flip, scratch);
    pipeline.transform(image, 1, key, scratch);
    EXPECT_EQ(image.pixels, want.pixels) << key;
  }
}

TEST(Pipeline, ATransformMoreChangesNoOthersDraws) {
  Pipeline one(small), two(small);
  one.add(RandomResizedCrop({.height = 9, .width = 7})).add(RandomFlip(1));
  two.add(RandomResizedCrop({.height = 9, .width = 7})).add(RandomFlip(0, Axis::vertical)).add(RandomFlip(1));
  EXPECT_EQ(row_of(one, {.index = 2, .key = 9}), row_of(two, {.index = 2, .key = 9}));
  expect_error([&] { one.add(RandomFlip()); },
               "pipeline: two transforms take the same draws: flip 1 and flip 0.5");
}

TEST(Pipeline, NamesTheImageThatDoesNotSuit) {
  Pipeline pipeline(small);
  expect_error([&] { row_of(pipeline, {.index = 2}); },
               "made 2: pipeline: an image became (32, 30, 3), wanted (9, 7, 3)");
  pipeline.add(RandomCrop({.height = 41, .width = 7}));
  expect_error([&] { row_of(pipeline, {.index = 2}); },
               "made 2: random_crop: a crop of (41, 7) from (40, 38)");
}

TEST(Pipeline, NormalizesAsTorchvision) {
  const auto want = testing::transform_goldens().read("normalize").to_vector<float>();
  EXPECT_EQ(Pipeline(small).table(), want);
}

TEST(Pipeline, SaysWhatItDoes) {
  Pipeline pipeline(
      {.height = 9, .width = 7, .erasing = ErasingOptions{}, .mixing = MixingOptions{.mixup = 0.8}});
  pipeline.add(RandomResizedCrop({.height = 9, .width = 7})).add(RandomFlip());
  EXPECT_EQ(
      pipeline.text(),
      "random_resized_crop 9 x 7 scale 0.08 to 1 ratio 0.75 to 1.3333333333333333 bicubic, flip 0.5, "
      "normalize "
      "0.485 0.456 0.406 by 0.229 0.224 0.225, erasing 0.25 area 0.02 to 0.3333333333333333 ratio 0.3 to "
      "3.3333333333333335 noise, mixup 0.8 cutmix 0 probability 1 switch 0.5 batch");
}

TEST(Pipeline, RefusesChannelsThatDoNotFit) {
  expect_error([] { Pipeline({.channels = 1}); }, "pipeline: 1 channels, but 3 means and 3 deviations");
  expect_error([] { Pipeline({.channels = 2}); }, "1 or 3 channels, got (224, 224, 2)");
  expect_error([] { Pipeline({.channels = 1, .mean = {0}, .deviation = {0}}); },
               "a deviation is not positive: 0");
}

TEST(Pipeline, ErasesByTheSamplesDraws) {
  Pipeline pipeline({.erasing = ErasingOptions{.probability = 1}});
  const Erasure erasure = pipeline.erasure(6, 11);
  EXPECT_GT(erasure.box.height, 0);
  EXPECT_NE(pipeline.erasure(6, 12).box, erasure.box);
  EXPECT_EQ(erasure.seed, seed_for(Use::noise, 6));
  EXPECT_EQ(erasure.offset, 11u);
  EXPECT_EQ(Pipeline(small).erasure(6, 11).box.height, 0);
}

}  // namespace
}  // namespace reprise::data
