// Multinomial logistic regression: the linear classifier that features are judged by.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::apps {

struct RegressionOptions {
  double l2 = 1e-4;         ///< of the mean loss: l2 / 2 times the squared weights
  double tolerance = 1e-4;  ///< of the largest element of the gradient
  int iterations = 1000;    ///< at most
};

struct Regression {
  Tensor weight;  ///< f64 (classes, width)
  double loss = 0;
  int iterations = 0;
};

/// Minimises the cross entropy of features (N, width) and labels, i64 (N), over all images at once, by L-BFGS (Nocedal
/// 1980) from 0, in f64. A feature that is always 1 makes a bias. Ends early where rounding lets no step lessen the loss.
Regression logistic_regression(const Tensor& features, const Tensor& labels, int64_t classes,
                               const RegressionOptions& options = {});

/// The share of the images whose likeliest class is their label.
double accuracy(const Regression& regression, const Tensor& features, const Tensor& labels);

}  // namespace reprise::apps
