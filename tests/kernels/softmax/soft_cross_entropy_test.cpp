// Cross-entropy against probabilities, against loops in f64.
#include "reprise/kernels/softmax/soft_cross_entropy.h"

#include <optional>

#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/softmax/cross_entropy.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

struct Case {
  RowArray logits, dlogits, targets;
  Array losses;

  Case(int64_t rows, int64_t classes, DType dtype, RowLayout layout, double range = 4,
       std::optional<DType> of_targets = {})
      : logits({rows, classes}, dtype, layout),
        dlogits({rows, classes}, dtype, layout),
        targets({rows, classes}, of_targets.value_or(accumulator_dtype(dtype)), layout),
        losses({rows}, accumulator_dtype(dtype), Layout::stepped) {
    logits.randomize(1, -range, range);
    dlogits.fill(77);
    // About 1 in all; every third is 0.
    for (int64_t i = 0; i < targets.view().numel(); ++i)
      set_element(targets.view(), offset_of(targets.view(), i),
                  i % 3 == 0 ? 0 : double(i % 5) / double(classes));
  }
  SoftCrossEntropyArguments arguments(double smoothing, double scale) const {
    return {.logits = logits.view(),
            .targets = targets.view(),
            .label_smoothing = smoothing,
            .losses = losses.view(),
            .dlogits = dlogits.view(),
            .scale = scale};
  }
};

struct Reference {
  std::vector<double> losses, dlogits;

  Reference(const Case& c, double smoothing, double scale) {
    const std::vector<double> x = c.logits.values(), p = c.targets.values();
    const size_t classes = size_t(c.logits.view().size(1));
    for (size_t row = 0; row < x.size() / std::max<size_t>(classes, 1); ++row) {
      const double* logits = x.data() + row * classes;
      std::vector<double> q(classes);
      double max = *std::max_element(logits, logits + classes), sum = 0, mass = 0, loss = 0;
      for (size_t v = 0; v < classes; ++v) {
        q[v] = (1 - smoothing) * p[row * classes + v] + smoothing / double(classes);
        sum += std::exp(logits[v] - max);
        mass += q[v];
      }
      for (size_t v = 0; v < classes; ++v) {
        if (q[v] > 0) loss -= q[v] * (logits[v] - max - std::log(sum));
        dlogits.push_back(scale * (std::exp(logits[v] - max) / sum * mass - q[v]));
      }
      losses.push_back(loss);
    }
  }
};

void check_case(const Case& c, double smoothing, double scale, const std::string& what) {
  const DType dtype = c.logits.view().dtype;
  const Reference want(c, smoothing, scale);
  run_kernel(soft_cross_entropy, c.arguments(smoothing, scale));
  // A loss is a sum of up to 16,407 terms; each gradient is a handful of roundings of numbers below 2.
  expect_near(c.losses.values(), want.losses, 64 * epsilon_of(accumulator_dtype(dtype)), "loss " + what);
  expect_near(c.dlogits.values(), want.dlogits, 4 * epsilon_of(dtype), "dlogits " + what);
}

TEST(SoftCrossEntropy, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (auto [rows, classes] : {std::pair<int64_t, int64_t>{5, 1},
                               {3, 3},
                               {67, 65},
                               {5, 129},
                               {3, 2 * kCrossEntropyBlock + 907},
                               {0, 5}})
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : {RowLayout::contiguous, RowLayout::padded})
        for (double smoothing : {0.0, 0.1, 1.0}) {
          const Case c(rows, classes, dtype, layout);
          check_case(c, smoothing, 0.25, describe({rows, classes}, dtype, Layout(layout)));
          EXPECT_TRUE(layout == RowLayout::contiguous || c.dlogits.gaps_hold(77));
        }
}

// Probabilities of 16 bits: the bits of those in f32 that have their values.
TEST(SoftCrossEntropy, ReadsProbabilitiesOfEachDType) {
  for (auto [rows, classes] :
       {std::pair<int64_t, int64_t>{5, 1}, {67, 65}, {3, 264}, {3, 2 * kCrossEntropyBlock + 907}})
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (DType of_targets : {DType::bf16, DType::f16})
        for (RowLayout layout : {RowLayout::contiguous, RowLayout::padded}) {
          const Case c(rows, classes, dtype, layout, 4, of_targets);
          const std::string what = describe({rows, classes}, of_targets, Layout(layout));
          check_case(c, 0.1, 0.25, what);
          const Case wide(rows, classes, dtype, layout);
          copy(Stream(Device::cpu()), c.targets.view(), wide.targets.view());
          run_kernel(soft_cross_entropy, wide.arguments(0.1, 0.25));
          EXPECT_EQ(c.losses.values(), wide.losses.values()) << what;
          EXPECT_EQ(c.dlogits.values(), wide.dlogits.values()) << what;
        }
}

TEST(SoftCrossEntropy, MatchesF64LoopsAtEveryCutOfTheRow) {
  for (const Shape& shape : cut_shapes())
    if (shape.size() == 2)
      for (DType dtype : packed_dtypes)
        check_case(Case(shape[0], shape[1], dtype, RowLayout::contiguous), 0.1, 1,
                   describe(shape, dtype, {}));
}

TEST(SoftCrossEntropy, SurvivesLogitsWhoseExponentialsOverflow) {
  for (double range : {1e3, 1e30})
    check_case(Case(5, 67, DType::f32, RowLayout::contiguous, range), 0, 1, "large");
}

TEST(SoftCrossEntropy, LetsMaskedClassesCostNothingAndCarriesNaN) {
  Case c(2, 5, DType::f32, RowLayout::contiguous);
  for (int64_t v = 0; v < 5; ++v) {
    set_element(c.logits.view(), v, v == 2 ? -std::numeric_limits<double>::infinity() : 1);
    set_element(c.targets.view(), v, v == 2 ? 0 : 0.25);
  }
  set_element(c.logits.view(), 7, std::nan(""));
  run_kernel(soft_cross_entropy, c.arguments(0, 1));
  EXPECT_NEAR(c.losses.values()[0], std::log(4.0), 1e-6);  // four classes left, f32
  EXPECT_TRUE(std::isnan(c.losses.values()[1]));
  std::vector<double> gradient = c.dlogits.values();
  gradient.resize(5);
  expect_near(gradient, std::vector<double>(5), 1e-6, "dlogits");
}

TEST(SoftCrossEntropy, WritesTheGradientOverTheLogitsAndTheSameLossWithoutIt) {
  for (auto [classes, layout] :
       {std::pair{65, RowLayout::padded}, {264, RowLayout::contiguous}, {16392, RowLayout::contiguous}}) {
    const Case c(7, classes, DType::f32, layout);
    SoftCrossEntropyArguments arguments = c.arguments(0.2, 0.5);
    run_kernel(soft_cross_entropy, arguments);
    const std::vector<double> losses = c.losses.values(), dlogits = c.dlogits.values();
    arguments.dlogits = {};
    run_kernel(soft_cross_entropy, arguments);
    EXPECT_EQ(c.losses.values(), losses) << classes;
    arguments.dlogits = c.logits.view();
    run_kernel(soft_cross_entropy, arguments);
    EXPECT_EQ(c.losses.values(), losses) << classes;
    EXPECT_EQ(c.logits.values(), dlogits) << classes;
  }
}

TEST(SoftCrossEntropy, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    const Case c(515, 65, DType::f32, RowLayout::contiguous);
    run_kernel(soft_cross_entropy, c.arguments(0.1, 1));
    return joined(c.losses.values(), c.dlogits.values());
  });
}

TEST(SoftCrossEntropy, RefusesViewsThatDoNotFit) {
  const Case c(3, 5, DType::bf16, RowLayout::contiguous), other(3, 7, DType::bf16, RowLayout::contiguous);
  auto error = [&](auto change) {
    SoftCrossEntropyArguments arguments = c.arguments(0, 1);
    change(arguments);
    return error_of(soft_cross_entropy, arguments);
  };
  const Array exact({3, 5}, DType::f64);
  EXPECT_EQ(error([&](auto& a) { a.targets = exact.view(); }),
            "soft_cross_entropy: targets is f64, should be f32");
  EXPECT_EQ(error([&](auto& a) { a.targets = other.targets.view(); }),
            "soft_cross_entropy: targets has shape (3, 7), should have (3, 5)");
  EXPECT_EQ(error([&](auto& a) { a.losses = select(c.logits.view(), 1, 0); }),
            "soft_cross_entropy: losses is bf16, should be f32");
  EXPECT_EQ(error([&](auto& a) { a.dlogits = other.dlogits.view(); }),
            "soft_cross_entropy: dlogits has shape (3, 7), should have (3, 5)");
  EXPECT_EQ(error([&](auto& a) { a.label_smoothing = 1.5; }),
            "soft_cross_entropy: label_smoothing is 1.5, should be in [0, 1]");
  EXPECT_EQ(error([&](auto& a) { a.logits = select(c.logits.view(), 0, 0); }),
            "soft_cross_entropy: logits need shape (N, V), have (5,)");
}

}  // namespace
}  // namespace reprise::kernels
