// UNet: an image for an image (Ronneberger et al. 2015), with the names and layers of milesial's Pytorch-UNet.
#pragma once

#include <memory>
#include <vector>

#include "reprise/nn/conv.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/recompute_setting.h"

namespace reprise::nn {

/// How a decoder stage doubles the sides.
enum class UNetUp : uint8_t {
  bilinear,    ///< interpolation that keeps the corners in place; the deepest stages have half the channels
  transposed,  ///< a transposed convolution of 2 x 2, which halves the channels
};

/// What stands behind each 3 x 3 convolution, before ReLU.
enum class UNetNorm : uint8_t {
  batch,  ///< BatchNorm2d
  group,  ///< GroupNorm
};

/// Sizes and parts of a UNet.
struct UNetOptions {
  int64_t channels = 3;             ///< of an image
  int64_t classes = 2;              ///< logits per pixel
  int64_t features = 64;            ///< channels of the first stage; each deeper one has twice as many
  int64_t depth = 4;                ///< how often the sides are halved
  UNetUp up = UNetUp::bilinear;     ///< of all decoder stages
  UNetNorm norm = UNetNorm::batch;  ///< of all stages
  int64_t groups = 32;              ///< of UNetNorm::group; they divide the features
  RecomputeStrategy recompute{};    ///< of the stages at first; later `model.set_recompute`
};

/// Images (N, channels, H, W) -> logits (N, classes, H, W). Sides may be odd: what was doubled is padded with
/// zeros to its skip's size.
///
/// What recompute calls blocks are the stages in the order of their run: inc, down1, ..., up1, ... The skips
/// are results of the encoder's regions, so they stay, and what is inside of a stage goes. The planner takes a
/// step to end with the cross entropy of every pixel.
///
///   rp::nn::UNet model({.channels = 1, .classes = 2, .features = 32, .recompute = rp::parse_strategy("full")});
class UNet : public Layer, public RecomputeSetting {
 public:
  /// One Error lists all options that do not fit.
  explicit UNet(const UNetOptions& options, Device device = {});
  /// Error unless both sides have at least 2^depth pixels.
  Tensor forward(const Tensor& images) override;

  int64_t size() const override { return 2 * options_.depth + 1; }  ///< stages: inc, downs, ups
  /// What it was made with.
  const UNetOptions& options() const { return options_; }

  Conv2d outc;  ///< 1 x 1, to the classes

 private:
  std::vector<recompute::ListLayer> stages() const;
  recompute::Chain measured(const Tensor& images, const recompute::ProfileOptions& options) override;

  UNetOptions options_;
  // The regions of a graph own them too, which may outlive the model.
  std::vector<std::shared_ptr<Layer>> convolutions_;   // of each stage
  std::vector<std::shared_ptr<ConvTranspose2d>> ups_;  // of each decoder stage; none for bilinear
};

}  // namespace reprise::nn
