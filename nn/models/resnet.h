// ResNet: residual networks (He et al. 2016), with torchvision's names.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "reprise/nn/batch_norm.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/conv.h"
#include "reprise/nn/linear.h"

namespace reprise::nn {

/// The convolutions of a block's branch.
enum class ResNetBlock : uint8_t {
  basic,       ///< two 3 x 3 convolutions
  bottleneck,  ///< 1 x 1, 3 x 3 with the stride, 1 x 1 to four times the channels
};

/// What stands before the first block, with a norm and ReLU behind the convolution.
enum class ResNetStem : uint8_t {
  imagenet,  ///< 7 x 7 of stride 2, then a maximum over 3 x 3 of stride 2
  cifar,     ///< 3 x 3
};

/// Sizes of a ResNet; by default those of ResNet-18 for ImageNet.
struct ResNetOptions {
  int64_t channels = 3;                     ///< of an image
  int64_t classes = 1000;                   ///< logits per image
  int64_t width = 64;                       ///< channels of the first stage; each later one has twice as many
  std::vector<int64_t> blocks{2, 2, 2, 2};  ///< of each stage; each but the first begins with stride 2
  ResNetBlock block = ResNetBlock::basic;   ///< the kind of all blocks
  ResNetStem stem = ResNetStem::imagenet;   ///< `cifar` for images of 32 x 32
  bool zero_init_last = false;    ///< the last norm of a block starts with weight 0 (Goyal et al. 2017)
  RecomputeStrategy recompute{};  ///< of the blocks at first; later `model.blocks.set_recompute`
};

/// Blocks of ResNet "18", "34" or "50"; all else as ResNetOptions has it. Error for any other name.
ResNetOptions resnet_preset(std::string_view name);

/// relu(x + branch(x)), with a 1 x 1 convolution and a norm on x where shapes change. Sum and relu are a part of the
/// branch's last norm.
class ResidualBlock : public Layer {
 public:
  /// Channels of a block, and what it divides the sides by.
  struct Shape {
    int64_t in;      ///< channels of x
    int64_t width;   ///< channels between the convolutions
    int64_t out;     ///< channels of the result; of a basic block `width`
    int64_t stride;  ///< of one 3 x 3 convolution, a basic block's first, and of the one on x
  };
  /// Convolutions without bias, which start as PyTorch's; ResNet starts its own anew. Error if a
  /// number of channels is not positive.
  ResidualBlock(ResNetBlock kind, const Shape& shape, Device device = {});
  /// (N, in, H, W) -> (N, out, H / stride, W / stride), rounded up.
  Tensor forward(const Tensor& x) override;

  Conv2d conv1;                          ///< 3 x 3; of a bottleneck 1 x 1
  BatchNorm2d bn1;                       ///< behind conv1, with ReLU
  Conv2d conv2;                          ///< 3 x 3
  BatchNorm2d bn2;                       ///< behind conv2, with ReLU; in a basic block after the sum
  std::optional<Conv2d> conv3;           ///< of a bottleneck
  std::optional<BatchNorm2d> bn3;        ///< of a bottleneck: behind conv3, with ReLU after the sum
  std::optional<Sequential> downsample;  ///< the 1 x 1 convolution and norm on x; none where shapes stay
};

/// Images (N, channels, H, W) -> logits (N, classes). Its state dict is torchvision's, for 64 channels in the
/// first stage. Convolutions start as there: normal by fan out.
class ResNet : public Layer {
 public:
  /// Error with the numbers if a size is not positive, or there is no stage.
  explicit ResNet(const ResNetOptions& options, Device device = {});
  /// Logits; the head sees the mean over H' and W'. Error unless the images are (N, channels, H, W).
  Tensor forward(const Tensor& images) override;
  /// After the last block: (N, channels, H', W'). Error where the model has hooks or was replaced.
  Tensor features(const Tensor& images) const;

  /// Under torchvision's names, such as "layer2.0.conv1.weight" for blocks.2.conv1.weight.
  NamedTensors state_dict() const override;
  /// What it was made with.
  const ResNetOptions& options() const { return options_; }

  /// The depth of a parameter by its name in `named_parameters`, for layer decay: 0 for the stem, i + 1 for block i,
  /// blocks + 1 for `fc` (timm's). Error for any other name.
  int64_t layer_of(std::string_view parameter) const;

  Conv2d conv1;              ///< the stem's, without bias
  BatchNorm2d bn1;           ///< behind it, with ReLU
  BlockStack blocks;         ///< of ResidualBlocks, of all stages; called with images
  std::optional<Linear> fc;  ///< the head, (classes, channels of the last block); always there

 private:
  Tensor embed(const Tensor& images);
  Tensor classify(const Tensor& x) const { return (*fc)(mean(x, {2, 3})); }
  int64_t add_blocks(Device device);

  ResNetOptions options_;
  std::vector<std::string> stage_names_;  // torchvision's name of each block
};

}  // namespace reprise::nn
