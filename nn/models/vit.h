// Vit: the vision transformer (Dosovitskiy et al. 2021), with the options and the names of timm's.
#pragma once

#include <optional>
#include <string_view>

#include "reprise/nn/block_stack.h"
#include "reprise/nn/patch_embed.h"
#include "reprise/nn/transformer.h"

namespace reprise::nn {

/// What the head sees.
enum class Pool : uint8_t {
  token,  ///< the class token, after `norm`
  avg,    ///< the mean of the patches' tokens, with `fc_norm` after it
  none,   ///< no head: the model's results are the tokens, after `norm`
};

enum class Positions : uint8_t {
  learned,
  sincos,  ///< a buffer (positions.h); zeros for the tokens that are no patches
};

enum class VitInit : uint8_t {
  timm,  ///< normal 0.02, biases 0, tokens 1e-6, the patches' projection as PyTorch's convolutions
  jax,   ///< the original's: matrices Xavier, MLP biases 1e-6, the projection LeCun, the head 0; else as timm
};

struct VitOptions {
  int64_t image = 224;  ///< pixels of a side
  int64_t patch = 16;
  int64_t channels = 3;
  int64_t classes = 1000;  ///< 0 with Pool::none
  int64_t width = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  Stem stem = Stem::patch;
  bool class_token = true;
  int64_t registers =
      0;  ///< tokens that are no patches, between the class token and these (Darcet et al. 2024)
  Pool pool = Pool::token;
  bool no_embed_class = false;  ///< positions are the patches' alone (DeiT III)
  Positions positions = Positions::learned;
  double layer_scale = 0;  ///< what LayerScale starts with; 0: there is none
  bool qkv_bias = true;
  double dropout =
      0;  ///< of the embedded tokens, after each half of a block, of the attention's probabilities
  double head_dropout = 0;  ///< before the head
  double drop_path = 0;     ///< stochastic depth of the last block; block i has i / (layers - 1) of it
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-6;
  bool qk_norm = false;  ///< norms the channels of each head of q and k
  bool rope = false;     ///< rotary positions of the patches (rope.h), beside `positions`
  VitInit init = VitInit::timm;
  RecomputeStrategy recompute{};  ///< of the blocks at first; later `model.blocks.set_recompute`
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
class Vit : public Module {
 public:
  /// One Error lists all options that do not fit each other.
  explicit Vit(const VitOptions& options, Device device = {});

  Tensor operator()(const Tensor& images);
  /// Tokens after the last block, and after `norm` where there is one: (N, tokens, width).
  Tensor features(const Tensor& images);
  /// Images as the first block sees them, (N, tokens, width): class token, registers, patches row by row.
  Tensor embed(const Tensor& images);

  const VitOptions& options() const { return options_; }
  /// Tokens before those of the patches.
  int64_t prefix_tokens() const { return (options_.class_token ? 1 : 0) + options_.registers; }

  /// The depth of a parameter by its name, for layer decay: 0 for stem and embedded tokens, i + 1 for block i,
  /// with the last block's `norm`, layers + 1 for `fc_norm` and head (timm's). Error for any other name.
  int64_t layer_of(std::string_view parameter) const;

  /// Floating-point operations of one training step for one image: three times those of the matrix products
  /// forward.
  double flops_per_image() const;

  Tensor cls_token, reg_token;  ///< (1, 1, width), (1, registers, width); undefined where there are none
  Tensor pos_embed;             ///< (1, tokens, width), or of the patches alone
  PatchEmbed patch_embed;
  BlockStack
      blocks;  ///< of TransformerBlocks; called with images, it embeds them first; tokens it takes as they are
  std::optional<Norm> norm, fc_norm;
  Dropout position_dropout, head_dropout;
  std::optional<Linear> head;
  /// What a training step makes of the tokens after `norm` where there is no head, for the planner of the blocks; empty:
  /// their sum.
  std::function<Tensor(const Tensor& tokens)> planned_loss{};

 private:
  void check_images(const Tensor& images) const;
  Tensor for_head(const Tensor& x);
  Tensor classify(const Tensor& x);
  Tensor loss_after(const Tensor& x);
  void make_tokens(Device device);
  void init_as_jax();

  VitOptions options_;
};

}  // namespace reprise::nn
