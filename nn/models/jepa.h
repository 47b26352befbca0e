// Jepa: I-JEPA (Assran et al. 2023), which learns without labels: from a part of a picture it predicts what a slowly
// moving copy of the encoder makes of other parts.
#pragma once

#include "reprise/nn/models/vit.h"

namespace reprise::nn {

/// Sizes of a Jepa; by default an encoder as large as ViT-B/16.
struct JepaOptions {
  int64_t image = 224;            ///< pixels of a side
  int64_t patch = 16;             ///< pixels of a patch's side; divides `image`
  int64_t channels = 3;           ///< of an image
  int64_t width = 768;            ///< of the encoders' tokens; a multiple of `heads` and of 4
  int64_t layers = 12;            ///< blocks of an encoder
  int64_t heads = 12;             ///< of an encoder's attention
  int64_t predictor_width = 384;  ///< of the predictor's tokens; a multiple of `predictor_heads` and of 4
  int64_t predictor_layers = 6;   ///< blocks of the predictor
  int64_t predictor_heads = 12;   ///< of the predictor's attention
  double drop_path = 0;           ///< of the encoder's last block, as Vit has it
  double norm_eps = 1e-6;         ///< of the norms of encoders and predictor
  RecomputeStrategy recompute{};  ///< of the encoder's blocks
  RecomputeStrategy recompute_predictor{};  ///< of the predictor's
};

/// Tokens of the patches that are seen -> those of the patches that are not. Names are the reference's.
class JepaPredictor : public Module {
 public:
  /// Weights and the mask token normal 0.02, biases 0. One Error lists what does not fit: predictor_width no multiple
  /// of predictor_heads or of 4, no layer.
  explicit JepaPredictor(const JepaOptions& options, Device device = {});

  /// Tokens (B, K, width) of the patches `context`, i64 (B, K), and the patches `targets`, i64 (B, n, M), of n blocks
  /// that are predicted each on its own -> (B, n, M, width).
  Tensor operator()(const Tensor& tokens, const Tensor& context, const Tensor& targets) const;

  Linear predictor_embed;  ///< of the encoder's tokens, (predictor_width, width)
  /// (1, 1, predictor_width): what stands for a patch that is predicted, with its position added.
  Tensor mask_token;
  Tensor predictor_pos_embed;   ///< (1, patches, predictor_width), sines and cosines: a buffer
  BlockStack predictor_blocks;  ///< of TransformerBlocks, not causal
  LayerNorm predictor_norm;     ///< after the last block
  Linear predictor_proj;        ///< back to the encoder's width, (width, predictor_width)
};

/// Encoder, predictor and target encoder. The target is a copy of the encoder that nothing trains: it has no gradients,
/// stays in evaluation mode and is never recomputed. It follows by an average of the weights, after each update of the
/// optimizer:
///
///   rp::nn::Jepa model(options);
///   rp::optim::AdamW optimizer(rp::optim::decay_matrices(model, 1e-3, 0.04));
///   rp::optim::Ema target(model.encoder.named_parameters(), model.target_encoder.named_parameters(), momentum);
///   model.loss(images, model.target_features(images), context, targets).backward();
///   optimizer.step();
///   target.update();
class Jepa : public Module {
 public:
  /// One Error lists all options that do not fit each other.
  explicit Jepa(const JepaOptions& options, Device device = {});

  /// The target encoder's tokens of whole images (B, channels, image, image), each normed over its width: (B, patches,
  /// width), without a graph.
  Tensor target_features(const Tensor& images) const;
  /// The smooth L1 distance, with beta 1, of the predicted features to those of the targets' patches; the mean over all. Of
  /// `images` the blocks see no more than the patches `context`, i64 (B, K). `targets`: i64 (B, n, M).
  Tensor loss(const Tensor& images, const Tensor& target_features, const Tensor& context,
              const Tensor& targets);

  /// What a training step with that loss costs, for plans of the encoder's blocks.
  recompute::Chain profile(const Tensor& images, const Tensor& target_features, const Tensor& context,
                           const Tensor& targets, const recompute::ProfileOptions& options = {});

  /// What it was made with.
  const JepaOptions& options() const { return options_; }

  Vit encoder;              ///< without class token, head or pool
  JepaPredictor predictor;  ///< trained with the encoder
  Vit target_encoder;       ///< frozen; the encoder's copy at first

 private:
  using LossOf = std::function<Tensor(const Tensor& tokens)>;
  LossOf loss_of(const Tensor& images, const Tensor& target_features, const Tensor& context,
                 const Tensor& targets);

  JepaOptions options_;
};

/// The standard deviation over the images of a batch, the mean of it over patches and width: about 0 where an encoder
/// makes the same of every image. `features`: (B, patches, width).
double feature_std(const Tensor& features);

}  // namespace reprise::nn
