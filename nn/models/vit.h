// Vit: the vision transformer (Dosovitskiy et al. 2021), with the options and the names of timm's.
#pragma once

#include <optional>
#include <string_view>

#include "reprise/nn/block_stack.h"
#include "reprise/nn/patch_embed.h"
#include "reprise/nn/transformers/transformer_block.h"

namespace reprise::nn {

/// What the head sees.
enum class Pool : uint8_t {
  token,  ///< the class token, after `norm`
  avg,    ///< the mean of the patches' tokens, with `fc_norm` after it
  none,   ///< no head: the model's results are the tokens, after `norm`
};

/// What is added to the embedded tokens.
enum class Positions : uint8_t {
  learned,  ///< a parameter, normal 0.02 at first
  sincos,   ///< a buffer (positions.h); zeros for the tokens that are no patches
};

/// What the weights start as.
enum class VitInit : uint8_t {
  timm,  ///< normal 0.02, biases 0, tokens 1e-6, the patches' projection as PyTorch's convolutions
  jax,   ///< the original's: matrices Xavier, MLP biases 1e-6, the projection LeCun, the head 0; else as timm
};

/// Sizes and parts of a Vit; by default those of ViT-B/16 for ImageNet.
struct VitOptions {
  int64_t image = 224;      ///< pixels of a side
  int64_t patch = 16;       ///< pixels of a patch's side; divides `image`
  int64_t channels = 3;     ///< of an image
  int64_t classes = 1000;   ///< 0 with Pool::none
  int64_t width = 768;      ///< of a token's vector; the MLP of a block has four times as many in between
  int64_t layers = 12;      ///< blocks, at least 1
  int64_t heads = 12;       ///< of each block's attention; they divide the width
  Stem stem = Stem::patch;  ///< how a patch becomes a token (patch_embed.h)
  bool class_token = true;  ///< a learned token before all others; Pool::token needs it
  /// Tokens that are no patches, between the class token and these (Darcet et al. 2024).
  int64_t registers = 0;
  Pool pool = Pool::token;                   ///< what the head sees
  bool no_embed_class = false;               ///< positions are the patches' alone (DeiT III)
  Positions positions = Positions::learned;  ///< `sincos` needs a width that is a multiple of 4
  double layer_scale = 0;                    ///< what LayerScale starts with; 0: there is none
  bool qkv_bias = true;                      ///< of the projection to queries, keys and values
  /// The dropout of the embedded tokens, after each half of a block, and of the attention's probabilities.
  double dropout = 0;
  double head_dropout = 0;  ///< before the head
  double drop_path = 0;     ///< stochastic depth of the last block; block i has i / (layers - 1) of it
  NormKind norm = NormKind::layer;  ///< of all but a conv stem's, which are BatchNorm
  double norm_eps = 1e-6;           ///< of those norms
  bool qk_norm = false;             ///< norms the channels of each head of q and k
  bool rope = false;                ///< rotary positions of the patches (rope.h), beside `positions`
  VitInit init = VitInit::timm;     ///< what the weights start as
  RecomputeStrategy recompute{};    ///< of the blocks at first; later `model.blocks.set_recompute`
};

/// Width, layers and heads of "tiny", "small", "base" or "large"; all else as VitOptions has it. "vit5_small" and
/// "vit5_base" are ViT-5's (Wang et al. 2026, arXiv 2602.08071): RMSNorm, also of q and k, LayerScale from 1e-4, rotary
/// beside learned positions of the patches, 4 registers, no qkv_bias. Error for any other name.
VitOptions vit_preset(std::string_view name);

/// What is learned without labels: patches alone, without class token, pool or head, and sincos positions (I-JEPA's).
VitOptions patch_encoder(VitOptions o);

/// Images (N, channels, image, image) -> logits (N, classes). Its state dict has timm's names and shapes, save
/// for the stem `conv` and for `pos_embed` of sincos, which timm does not have.
///
///   rp::nn::Vit model({.image = 28, .patch = 4, .channels = 1, .classes = 10, .width = 128, .layers = 4, .heads = 4});
class Vit : public Layer {
 public:
  /// One Error lists all options that do not fit each other.
  explicit Vit(const VitOptions& options, Device device = {});

  /// Logits (N, classes); with Pool::none the tokens, as `features`. Error unless the images are (N, channels, image,
  /// image).
  Tensor forward(const Tensor& images) override;
  /// Tokens after the last block, and after `norm` where there is one: (N, tokens, width). Error where the model has hooks or was
  /// replaced.
  Tensor features(const Tensor& images) const;
  /// Images as the first block sees them, (N, tokens, width): class token, registers, patches row by row.
  Tensor embed(const Tensor& images) const;

  /// What it was made with.
  const VitOptions& options() const { return options_; }
  /// Tokens before those of the patches.
  int64_t prefix_tokens() const { return (options_.class_token ? 1 : 0) + options_.registers; }

  /// The depth of a parameter by its name, for layer decay: 0 for stem and embedded tokens, i + 1 for block i,
  /// with the last block's `norm`, layers + 1 for `fc_norm` and head (timm's). Error for any other name.
  int64_t layer_of(std::string_view parameter) const;

  /// Floating-point operations of one training step for one image: three times those of the matrix products
  /// forward.
  double flops_per_image() const;

  Tensor cls_token;        ///< (1, 1, width); undefined without it
  Tensor reg_token;        ///< (1, registers, width); undefined without them
  Tensor pos_embed;        ///< (1, tokens, width), or of the patches alone
  PatchEmbed patch_embed;  ///< images to the patches' tokens
  /// TransformerBlocks. Called with images, the stack embeds them first; tokens it takes as they are.
  BlockStack blocks;
  std::optional<Norm> norm;     ///< of the last block's tokens; none with Pool::avg
  std::optional<Norm> fc_norm;  ///< of their mean, with Pool::avg alone
  Dropout position_dropout;     ///< of the embedded tokens
  Dropout head_dropout;         ///< before the head
  std::optional<Linear> head;   ///< (classes, width); none with Pool::none
  /// What a training step makes of the tokens after `norm` where there is no head, for the planner of the blocks; empty:
  /// their sum.
  std::function<Tensor(const Tensor& tokens)> planned_loss{};

 private:
  void check_images(const Tensor& images) const;
  Tensor tokens_of(const Tensor& images) const;
  Tensor for_head(const Tensor& x) const;
  Tensor classify(const Tensor& x) const;
  Tensor loss_after(const Tensor& x) const;
  void make_tokens(Device device);
  void init_as_jax();

  VitOptions options_;
};

}  // namespace reprise::nn
