// What a model is worth on held-out data.
#pragma once

#include <optional>

namespace reprise::train {

struct Validation {
  Validation(double mean_loss, std::optional<double> share_right = {})
      : loss(mean_loss), accuracy(share_right) {}

  double loss;
  std::optional<double> accuracy;  ///< share of right answers, in [0, 1], of models that answer
};

}  // namespace reprise::train
