// Recipes: what each does to a sample, as its text says it, and that rows come out.
#include "reprise/data/recipes.h"

#include <gtest/gtest.h>

#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/made_image.h"
#include "reprise/tests/support/same_image.h"

namespace reprise::data {
namespace {

using testing::expect_error;
using testing::made_image;
using testing::same_image;

const std::string imagenet = "normalize 0.485 0.456 0.406 by 0.229 0.224 0.225";
const std::string erasing =
    "erasing 0.25 area 0.02 to 0.3333333333333333 ratio 0.3 to 3.3333333333333335 noise";
const std::string mixing = "mixup 0.8 cutmix 1 probability 1 switch 0.5 batch";

std::string crop(int size, const std::string& scale, const std::string& filter) {
  const std::string side = std::to_string(size);
  return "random_resized_crop " + side + " x " + side + " scale " + scale +
         " to 1 ratio 0.75 to 1.3333333333333333 " + filter + ", flip 0.5, ";
}

TEST(Recipes, DoWhatTheyAreKnownFor) {
  EXPECT_EQ(fashion_train().text(),
            "resize 28 bicubic, center_crop 28, flip 0.5, normalize 0.28604 by 0.35302");
  EXPECT_EQ(fashion_eval().text(), "resize 28 bicubic, center_crop 28, normalize 0.28604 by 0.35302");
  EXPECT_EQ(
      cifar_train().text(),
      "random_crop 32 x 32 pad 4 zero, flip 0.5, normalize 0.4914 0.4822 0.4465 by 0.247 0.2435 0.2616");
  EXPECT_EQ(
      cutout_train().text(),
      "random_crop 32 x 32 pad 2 reflect, flip 0.5, normalize 0.4914 0.4822 0.4465 by 0.247 0.2435 0.2616, "
      "erasing 1 area 0.140625 to 0.140625 ratio 1 to 1 zero");
  const io::Box square = cutout_train().erasure(1, 2).box;
  EXPECT_EQ(square.height, 12);
  EXPECT_EQ(square.width, 12);
  EXPECT_EQ(deit_train({.image = 96}).text(),
            crop(96, "0.08", "bicubic") +
                "rand_augment timm:m9-n2-p0.5-mstd0.5-inc1 bicubic fill 124 116 104, " + imagenet + ", " +
                erasing + ", " + mixing);
  EXPECT_EQ(finetune_train({.image = 96}).text(),
            crop(96, "0.08", "bicubic") +
                "rand_augment timm:m9-n2-p0.5-mstd0.5-inc1 bicubic fill 124 116 104, " + imagenet + ", " +
                erasing);
  EXPECT_EQ(deit3_train().text(), crop(224, "0.08", "bicubic") +
                                      "three_augment, color_jitter 0.3 0.3 0.3 0, " + imagenet + ", " +
                                      mixing);
  EXPECT_EQ(simple_train().text(),
            crop(224, "0.05", "bilinear") +
                "rand_augment tv:2,10 nearest fill 128 128 128, normalize 0.5 0.5 0.5 by 0.5 "
                "0.5 0.5, mixup 0.2 cutmix 0 probability 1 switch 0.5 batch");
  EXPECT_EQ(resnet_train().text(), crop(224, "0.08", "bilinear") + imagenet);
  EXPECT_EQ(
      jepa_train().text(),
      "random_resized_crop 224 x 224 scale 0.3 to 1 ratio 0.75 to 1.3333333333333333 bicubic, " + imagenet);
  const std::string of_lejepa =
      "ratio 0.75 to 1.3333333333333333 bicubic, flip 0.5, color_jitter 0.4 0.4 0.2 0.1 probability 0.8, "
      "gray 0.2, blur 0.5 radius 0.1 to 2, solarize 0.2, " +
      imagenet;
  EXPECT_EQ(lejepa_global().text(), "random_resized_crop 224 x 224 scale 0.3 to 1 " + of_lejepa);
  EXPECT_EQ(lejepa_local().text(), "random_resized_crop 224 x 224 scale 0.05 to 0.3 " + of_lejepa);
  EXPECT_EQ(photo_eval().text(), "resize 256 bicubic, center_crop 224, " + imagenet);
  EXPECT_EQ(photo_eval({.crop_pct = 0.9}).text(), "resize 248 bicubic, center_crop 224, " + imagenet);
  EXPECT_EQ(resnet_eval().text(), "resize 256 bilinear, center_crop 224, " + imagenet);
}

TEST(Recipes, MakeRowsOfAnyPhotograph) {
  const RecipeOptions small{.image = 24};
  TransformScratch scratch;
  for (auto recipe : {fashion_train, fashion_eval, cifar_eval, deit_train, deit3_train, simple_train,
                      finetune_train, jepa_train, lejepa_local, resnet_train, resnet_eval, photo_eval}) {
    const Pipeline pipeline = recipe(small);
    for (uint64_t key = 0; key < 5; ++key) {
      io::Image image = made_image(33, 27, pipeline.options().channels);
      pipeline.transform(image, 1, key, scratch);
      EXPECT_EQ(int64_t(image.pixels.size()), pipeline.row_bytes()) << pipeline.text();
    }
  }
}

TEST(Recipes, FashionsImagesAreFlippedOrAsTheyAre) {
  const io::Image image = made_image(28, 28, 1);
  TransformScratch scratch;
  int same = 0;
  for (uint64_t key = 0; key < 20; ++key) {
    io::Image row = image;
    fashion_train().transform(row, 1, key, scratch);
    same += row.pixels == image.pixels;
  }
  EXPECT_GT(same, 2);
  EXPECT_LT(same, 18);
  io::Image row = image;
  fashion_eval().transform(row, 1, 0, scratch);
  EXPECT_TRUE(same_image(row, image));
}

TEST(Recipes, RefuseACropLargerThanTheImage) {
  expect_error([] { photo_eval({.crop_pct = 1.1}); }, "recipe: crop_pct must be in (0, 1]: 1.1");
}

}  // namespace
}  // namespace reprise::data
