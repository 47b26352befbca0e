// LeJepa (Balestriero and LeCun 2025, arXiv 2511.08544): learns without labels from views of pictures. All views of a picture
// are to have the same features, and the features of a batch those of an isotropic Gaussian, which is what keeps them from
// collapsing: no second encoder, no stopped gradient, no schedule.
#pragma once

#include "reprise/nn/models/vit.h"

namespace reprise::nn {

/// SIGReg: how far samples are from a standard normal distribution of their width, by the statistic of Epps and Pulley (1983)
/// along each direction; the mean over the directions and the leading dimension. With the empirical characteristic function
/// c(t) = mean of exp(i t x) over the n samples, it is
///
///   n times the integral from -3 to 3 of |c(t) - exp(-t t / 2)|^2 exp(-t t / 2) dt
///
/// by trapezoids of 3 / 16. `samples`: (V, n, width), each of the V on its own; `directions`: (width, M), of length 1.
Tensor sigreg(const Tensor& samples, const Tensor& directions);

/// Directions for a step, uniform on the sphere: (width, count), a pure function of seed and step.
Tensor sketch_directions(uint64_t seed, int64_t step, int64_t width, int64_t count, Device device = {});

/// Sizes of a LeJepa and of its loss; by default an encoder as large as ViT-S/16.
struct LeJepaOptions {
  int64_t image = 224;       ///< pixels of a side
  int64_t patch = 16;        ///< pixels of a patch's side; divides `image`
  int64_t channels = 3;      ///< of an image
  int64_t width = 384;       ///< of the encoder's tokens; a multiple of `heads` and of 4
  int64_t layers = 12;       ///< blocks of the encoder
  int64_t heads = 6;         ///< of its attention
  int64_t hidden = 1024;     ///< of the projector, between its two layers
  int64_t features = 64;     ///< of the projector's results, which are compared
  double lambda = 0.05;      ///< the share of SIGReg in the loss, in [0, 1]
  int64_t directions = 256;  ///< of a step, along which SIGReg looks: plans count on so many
  double drop_path = 0;      ///< of the encoder's last block, as Vit has it
  /// How the encoder's blocks begin; later use `model.encoder.blocks.set_recompute`.
  RecomputeStrategy recompute{};
};

/// A Vit of patches alone, and a projector of two layers with GELU between on the mean of its tokens.
///
///   rp::nn::LeJepa model({.image = 32, .patch = 4});
///   model.loss(views, model.directions(seed, step)).backward();
class LeJepa : public Module {
 public:
  /// The projector starts as PyTorch's linear layers, the encoder as Vit. Error unless `hidden`, `features` and
  /// `directions` are at least 1 and lambda is in [0, 1], and where Vit refuses the encoder's options.
  explicit LeJepa(const LeJepaOptions& options, Device device = {});

  /// Pictures (B, channels, image, image) -> (B, width), the mean of their tokens: what a probe looks at.
  Tensor features(const Tensor& images) const;
  /// Views (V, B, channels, image, image) of B pictures -> their projected features, (V, B, features).
  Tensor project(const Tensor& views) const;
  /// The loss of projected features: (1 - lambda) times the mean square distance of a view's features to the mean of those
  /// of its picture's first `global_views` (0: all), plus lambda times their `sigreg`. `directions`: (features, M).
  Tensor compare(const Tensor& projected, const Tensor& directions, int64_t global_views = 0) const;
  /// `compare` of `project`.
  Tensor loss(const Tensor& views, const Tensor& directions, int64_t global_views = 0) const {
    return compare(project(views), directions, global_views);
  }
  /// As many as the options say, on the model's device: `sketch_directions`.
  Tensor directions(uint64_t seed, int64_t step) const;

  /// What it was made with.
  const LeJepaOptions& options() const { return options_; }

  Vit encoder;        ///< without class token, head or pool
  Linear hidden;      ///< the projector's first layer, (hidden, width)
  Linear projection;  ///< its second, (features, hidden)

 private:
  Tensor projected(const Tensor& tokens, int64_t views) const;

  LeJepaOptions options_;
};

}  // namespace reprise::nn
