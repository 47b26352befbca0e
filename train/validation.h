// What a model is worth on held-out data.
#pragma once

#include <optional>

namespace reprise::train {

/// The result of an evaluation.
struct Validation {
  /// `share_right`: the share of right answers, for models that answer.
  Validation(double mean_loss, std::optional<double> share_right = {})
      : loss(mean_loss), accuracy(share_right) {}

  double loss;                     ///< the mean over the held-out split, or a part of it
  std::optional<double> accuracy;  ///< share of right answers, in [0, 1], of models that answer
};

}  // namespace reprise::train
