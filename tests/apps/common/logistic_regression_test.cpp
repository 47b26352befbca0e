// Logistic regression: the gradient of its loss, by the definition in f64, vanishes where it stops.
#include "reprise/apps/common/logistic_regression.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/core/random.h"

namespace reprise::apps {
namespace {

constexpr int64_t images = 60, width = 4, classes = 3;

// Three overlapping clouds, and a feature of ones.
struct Clouds {
  std::vector<double> x;
  std::vector<int64_t> label;
  Clouds() {
    for (int64_t i = 0; i < images; ++i) {
      label.push_back(i % classes);
      for (int64_t j = 0; j + 1 < width; ++j)
        x.push_back(double(philox_block(1, 2, uint64_t(i * width + j))[0]) / 0x1p32 +
                    (j == i % classes ? 0.4 : 0));
      x.push_back(1);
    }
  }
  Tensor features() const { return Tensor::from(std::vector<float>(x.begin(), x.end()), {images, width}); }
  Tensor labels() const { return Tensor::from(label, {images}); }
};

TEST(LogisticRegression, EndsWhereTheGradientVanishes) {
  const Clouds clouds;
  const RegressionOptions options{.l2 = 0.01, .tolerance = 1e-7};
  Regression r = logistic_regression(clouds.features(), clouds.labels(), classes, options);
  const std::vector<double> weight = r.weight.to_vector<double>();
  std::vector<double> gradient(weight.size());
  double loss = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    gradient[i] = options.l2 * weight[i];
    loss += options.l2 / 2 * weight[i] * weight[i];
  }
  int64_t right = 0;
  for (int64_t i = 0; i < images; ++i) {
    const double* x = &clouds.x[size_t(i * width)];
    std::vector<double> p(classes);
    double total = 0;
    for (int64_t c = 0; c < classes; ++c) {
      double logit = 0;
      for (int64_t j = 0; j < width; ++j) logit += weight[size_t(c * width + j)] * x[j];
      total += p[size_t(c)] = std::exp(logit);
    }
    const auto label = size_t(clouds.label[size_t(i)]);
    right += std::max_element(p.begin(), p.end()) - p.begin() == int64_t(label);
    loss -= std::log(p[label] / total) / images;
    for (size_t c = 0; c < classes; ++c)
      for (size_t j = 0; j < width; ++j)
        gradient[c * width + j] += (p[c] / total - double(c == label)) * x[j] / images;
  }
  for (double g : gradient) EXPECT_LE(std::abs(g), 1e-7 + 1e-8) << "beside the features' rounding to f32";
  EXPECT_NEAR(r.loss, loss, 1e-7);
  EXPECT_LT(r.iterations, 60);
  EXPECT_GT(r.iterations, 3);
  EXPECT_EQ(accuracy(r, clouds.features(), clouds.labels()), double(right) / images);
}

TEST(LogisticRegression, EndsAtItsLimit) {
  const Clouds clouds;
  EXPECT_EQ(logistic_regression(clouds.features(), clouds.labels(), classes, {.iterations = 2}).iterations,
            2);
}

}  // namespace
}  // namespace reprise::apps
