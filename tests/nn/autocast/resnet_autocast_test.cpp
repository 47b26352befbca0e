// A ResNet under autocast casts nothing of an image's size: its first convolution reads images in f32, all else follows its 16 bits. The mean
// over pixels is rounded by a cast.
#include <string_view>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;

class CountImageCasts final : public autograd::OpObserver {
 public:
  int casts = 0, operations = 0;

 private:
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList&) override {
    ++operations;
    casts += std::string_view(op_name) == "cast" && inputs[0].rank() == 4;
  }
};

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
        CountImageCasts count;
        Tensor loss;
        {
          amp::Autocast scope(test_device(), dtype);
          loss = cross_entropy(model(images), labels);
        }
        (loss * 65536.0).backward();
        EXPECT_EQ(count.casts, 0) << dtype << ", " << strategy;
        EXPECT_GT(count.operations, 10);
      }
}

}  // namespace
}  // namespace reprise
