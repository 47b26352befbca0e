// FeaturePyramid: maps of several sizes, each with what the coarser ones know (Lin et al. 2017); and such maps
// from the tokens of a Vit.
#pragma once

#include <memory>
#include <vector>

#include "reprise/nn/conv.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/module_list.h"

namespace reprise::nn {

/// Maps (N, channels[i], H_i, W_i), the finest first -> as many maps (N, out, H_i, W_i): a 1 x 1 convolution of each,
/// to which the coarser one's sum is added, enlarged by nearest neighbours; then 3 x 3 convolutions. Names, shapes and
/// start (He et al. 2015, uniform by fan in; biases 0) are torchvision's FeaturePyramidNetwork's.
class FeaturePyramid : public Module {
 public:
  /// Error if a number of channels is not positive, or there is no map.
  FeaturePyramid(const std::vector<int64_t>& channels, int64_t out, Device device = {});
  /// Error unless the maps are as many as `channels`, and each has the channels that are its own.
  TensorList operator()(const TensorList& maps) const;

  ModuleList<Sequential> inner_blocks;  ///< 1 x 1, of each map
  ModuleList<Sequential> layer_blocks;  ///< 3 x 3
};

/// How many maps a TokenMaps makes, and how fine the first is.
struct TokenMapsOptions {
  int64_t finest = 4;  ///< times the grid's sides, a power of 2
  int64_t levels = 4;  ///< maps; each has half the sides of the one before it
};

/// Maps for a FeaturePyramid from one grid of tokens, as ViTDet makes them (Li et al. 2022), without its norms: the grid
/// itself, transposed convolutions of 2 x 2 above it, each with half the channels, and maxima over 2 x 2 below it.
///
///   rp::nn::TokenMaps maps(384);                                             // 4, 2, 1 and 1/2 times the grid
///   rp::nn::FeaturePyramid pyramid(maps.channels(), 256);
///   auto levels = pyramid(maps(patches, {14, 14}));                          // patches (N, 196, 384), row by row
class TokenMaps : public Module {
 public:
  /// One Error lists what does not fit: `finest` no power of 2, no level, a width that cannot be halved so often.
  explicit TokenMaps(int64_t width, const TokenMapsOptions& options = {}, Device device = {});
  /// Tokens (N, height x width, C) of patches alone -> maps, the finest first. Error if they are not as many, or the
  /// grid is too small for the coarsest map.
  TensorList operator()(const Tensor& tokens, Size2 grid) const;

  std::vector<int64_t> channels() const;  ///< of each map

  ModuleList<ConvTranspose2d> up;  ///< one for each doubling

 private:
  int64_t width_;
  TokenMapsOptions options_;
};

}  // namespace reprise::nn
