// PatchEmbed: how a picture becomes tokens, by one product over its patches or by a small convolutional stem.
#pragma once

#include <optional>

#include "reprise/nn/conv.h"
#include "reprise/nn/layers.h"

namespace reprise::nn {

/// How a patch becomes a vector.
enum class Stem : uint8_t {
  patch,  ///< one linear map of a patch's pixels (Dosovitskiy et al. 2021)
  conv,   ///< 3 x 3 convolutions of stride 2 before a 1 x 1 one (Xiao et al. 2021)
};

/// What a PatchEmbed takes, and how it maps patches.
struct PatchEmbedOptions {
  int64_t patch = 16;       ///< side of a patch in pixels
  int64_t channels = 3;     ///< of the images
  Stem stem = Stem::patch;  ///< one product, or convolutions before it
};

/// Images (N, channels, H, W) -> tokens (N, H / patch x W / patch, width), row by row. Names are timm's: proj.
///
/// The stem `conv` halves a picture, by convolution, BatchNorm and ReLU, until a patch is a pixel; its last
/// convolution has width / 2 channels, each one before it half as many. Error unless the patch is a power of
/// 2, and width a multiple of it.
class PatchEmbed : public Layer {
 public:
  /// Weights start as those of Conv2d and BatchNorm2d. Error if a size is not positive.
  explicit PatchEmbed(int64_t width, const PatchEmbedOptions& options = {}, Device device = {});
  /// Error unless the images' sides are multiples of the patch.
  Tensor forward(const Tensor& images) override;

  std::optional<Sequential> stem;  ///< of Stem::conv
  Conv2d proj;                     ///< weight (width, C, P, P): of patches of pixels, or of the stem's 1 x 1

 private:
  PatchEmbedOptions options_;
};

}  // namespace reprise::nn
