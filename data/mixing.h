// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): rows r and r xor 1 of a batch are mixed with each other,
// so a pair never lies in two micro-batches.
#pragma once

#include <span>
#include <string>

#include "reprise/data/draws.h"
#include "reprise/io/images/image.h"

namespace reprise::data {

/// What shares lambda and box: all rows of a step (timm's and torchvision's `batch`), or each pair its own.
enum class MixingMode { batch, pair };

/// Whether rows are mixed, and how much; by default never.
struct MixingOptions {
  double mixup = 0;                     ///< a of lambda ~ Beta(a, a) of Mixup; 0: never this one
  double cutmix = 0;                    ///< the same of CutMix
  double probability = 1;               ///< that anything is mixed
  double switch_probability = 0.5;      ///< that it is CutMix, where both may be
  MixingMode mode = MixingMode::batch;  ///< what shares lambda and box
};

/// How a pair is mixed. Without a box: x = lambda x + (1 - lambda) partner. With one: the box is the partner's, and
/// lambda is the share of the rest. Targets are mixed by lambda in both.
struct Mix {
  double lambda = 1;    ///< the row's own share; 1: nothing is mixed
  io::Box box{};        ///< of height 0 in Mixup
  bool cutmix = false;  ///< whether it is CutMix, though the box may be empty
  friend bool operator==(const Mix&, const Mix&) = default;
};

/// The mix of pair `pair` of a step, that of its rows 2 pair and 2 pair + 1, counted over all micro-batches.
Mix mix_of(const MixingOptions& options, int64_t height, int64_t width, uint64_t seed, int64_t step,
           int64_t pair);

/// CutMix of a box around (y, x) whose share is 1 - lambda before it is clipped to the image; lambda is corrected.
Mix cutmix_of(double lambda, int64_t height, int64_t width, int64_t y, int64_t x);

/// The row that row `row` is mixed with.
constexpr int64_t partner_of(int64_t row) { return row ^ 1; }

/// target (classes) = lambda of `label` + (1 - lambda) of `partner`, each smoothed: 1 - smoothing + smoothing /
/// classes at its class, smoothing / classes elsewhere (Szegedy et al. 2016).
void mixed_target(int64_t label, int64_t partner, double lambda, double smoothing, std::span<float> target);

/// The options in words, for the description of a run.
std::string text(const MixingOptions& options);

}  // namespace reprise::data
