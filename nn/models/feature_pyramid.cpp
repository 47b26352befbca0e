// The feature pyramid: lateral convolutions, the way down, and maps from tokens.
#include "reprise/nn/models/feature_pyramid.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/listing.h"
#include "reprise/nn/init.h"

namespace reprise::nn {
namespace {

void add_convolution(ModuleList<Sequential>& blocks, int64_t in, int64_t out, int64_t kernel, Device device) {
  auto& conv = blocks.add().add<Conv2d>(in, out, kernel, Conv2dLayerOptions{.padding = kernel / 2}, device);
  const double fan_in = double(in * kernel * kernel);
  NoGrad guard;
  conv.weight.copy_(uniform_init(conv.weight.shape(), std::sqrt(3 / fan_in), device));
  conv.bias.zero_();
}

}  // namespace

FeaturePyramid::FeaturePyramid(const std::vector<int64_t>& channels, int64_t out, Device device) {
  check(!channels.empty(), "FeaturePyramid: needs at least one map");
  for (int64_t in : channels)
    check(in >= 1 && out >= 1, "FeaturePyramid: channels must be positive, got ", in, " and ", out);
  register_module("inner_blocks", inner_blocks);
  register_module("layer_blocks", layer_blocks);
  for (int64_t in : channels) add_convolution(inner_blocks, in, out, 1, device);
  for (size_t i = 0; i < channels.size(); ++i) add_convolution(layer_blocks, out, out, 3, device);
}

TensorList FeaturePyramid::operator()(const TensorList& maps) const {
  const int64_t levels = inner_blocks.size();
  check(int64_t(maps.size()) == levels, "FeaturePyramid: ", levels, " maps are wanted, got ", maps.size());
  TensorList results(maps.size());
  Tensor sum;  // of the level and all coarser ones
  for (int64_t i = levels - 1; i >= 0; --i) {
    Tensor lateral = inner_blocks[i](maps[size_t(i)]);
    sum = sum.defined() ? lateral + interpolate(sum, {lateral.size(2), lateral.size(3)}) : lateral;
    results[size_t(i)] = layer_blocks[i](sum);
  }
  return results;
}

TokenMaps::TokenMaps(int64_t width, const TokenMapsOptions& options, Device device)
    : width_(width), options_(options) {
  Listing wrong;
  if (options.finest < 1 || !std::has_single_bit(uint64_t(options.finest)))
    wrong.add("finest must be a power of 2, got ", options.finest);
  if (options.levels < 1) wrong.add("at least one level is needed, got ", options.levels);
  if (width < 1 || (options.finest >= 1 && width % options.finest != 0))
    wrong.add("width ", width, " is not a multiple of finest ", options.finest);
  check(wrong.empty(), "TokenMaps: the options do not fit:", wrong.str());
  register_module("up", up);
  for (int64_t scale = 2, in = width; scale <= options.finest; scale *= 2, in /= 2)
    up.add(in, in / 2, 2, ConvTranspose2dLayerOptions{.stride = 2}, device);
}

std::vector<int64_t> TokenMaps::channels() const {
  std::vector<int64_t> channels;
  for (int64_t i = 0, scale = options_.finest; i < options_.levels;
       ++i, scale = std::max<int64_t>(1, scale / 2))
    channels.push_back(width_ / scale);
  return channels;
}

TensorList TokenMaps::operator()(const Tensor& tokens, Size2 grid) const {
  check(tokens.rank() == 3 && tokens.size(1) == grid.height * grid.width && tokens.size(2) == width_,
        "TokenMaps: tokens must be (N, ", grid.height, " x ", grid.width, ", ", width_, "), got ",
        tokens.shape(), "; class tokens and registers are not part of the grid");
  Tensor map = reshape(transpose(tokens, 1, 2), {tokens.size(0), width_, grid.height, grid.width});
  TensorList maps{map};  // the coarsest first
  for (int64_t i = 0; i < up.size(); ++i) maps.push_back(up[i](maps.back()));
  std::reverse(maps.begin(), maps.end());
  while (int64_t(maps.size()) < options_.levels) maps.push_back(max_pool2d(maps.back(), 2));
  maps.resize(size_t(options_.levels));
  return maps;
}

}  // namespace reprise::nn
