// A ResNet under autocast casts nothing of an image's size: its first convolution reads images in f32, all else follows its 16 bits. The mean
// over pixels is rounded by a cast.
#include "reprise/nn/models/resnet.h"
#include "reprise/tests/nn/autocast/casts.h"

namespace reprise {
namespace {

using testing::test_device;

TEST(ResNetAutocast, CastsNoImages) {
  const Tensor images = rand({2, 3, 32, 32}, DType::f32, test_device());
  const Tensor labels = Tensor::from<int64_t>({1, 3}, {2}).to(test_device());
  for (nn::ResNetStem stem : {nn::ResNetStem::imagenet, nn::ResNetStem::cifar})
    for (DType dtype : {DType::bf16, DType::f16})
      for (const char* strategy : {"none", "full"}) {
        nn::ResNet model({.classes = 5,
                          .width = 4,
                          .blocks = {1, 1, 1, 1},
                          .stem = stem,
                          .recompute = parse_strategy(strategy)},
                         test_device());
        testing::expect_no_cast([&] { return cross_entropy(model(images), labels); }, dtype, strategy,
                                /*least_rank=*/4);
      }
}

}  // namespace
}  // namespace reprise
