// Pictures as tokens.
#include "reprise/nn/patch_embed.h"

#include "reprise/nn/batch_norm.h"

namespace reprise::nn {
namespace {

int64_t channels_of(int64_t width, const PatchEmbedOptions& options) {
  const int64_t patch = options.patch;
  check(width >= 1 && patch >= 1 && options.channels >= 1, "PatchEmbed: sizes must be positive, got width ",
        width, ", patch ", patch, " and ", options.channels, " channels");
  if (options.stem == Stem::patch) return options.channels;
  check(patch >= 2 && (patch & (patch - 1)) == 0, "PatchEmbed: a conv stem halves a picture, patch ", patch,
        " is not a power of 2");
  check(width % patch == 0, "PatchEmbed: a conv stem needs a width that is a multiple of the patch, got ",
        width, " and ", patch);
  return width / 2;
}

}  // namespace

PatchEmbed::PatchEmbed(int64_t width, const PatchEmbedOptions& options, Device device)
    : proj(channels_of(width, options), width, options.stem == Stem::patch ? options.patch : 1, {}, device),
      options_(options) {
  if (options.stem == Stem::conv) {
    stem.emplace();
    for (int64_t in = options.channels, size = options.patch; size > 1; size /= 2) {
      const int64_t out = width / size;
      stem->add<Conv2d>(in, out, 3, Conv2dLayerOptions{.stride = 2, .padding = 1, .bias = false}, device);
      stem->add<BatchNorm2d>(out, BatchNormLayerOptions(), device);
      stem->add<Activate>(Activation::relu);
      in = out;
    }
    register_module("stem", *stem);
  }
  register_fixed("proj", proj);
}

Tensor PatchEmbed::forward(const Tensor& images) {
  check(images.rank() == 4 && images.size(1) == options_.channels, "PatchEmbed: images must be (N, ",
        options_.channels, ", H, W), got ", images.shape());
  check(images.size(2) % options_.patch == 0 && images.size(3) % options_.patch == 0,
        "PatchEmbed: images of ", images.size(2), " x ", images.size(3),
        " pixels do not divide into patches of ", options_.patch);
  return patch_embed(stem ? (*stem)(images) : images, proj.weight, proj.bias);
}

}  // namespace reprise::nn
