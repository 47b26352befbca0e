// Pooling layers: the means and maxima of windows by hand, and what they print.
#include "reprise/nn/pool.h"

#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

Tensor image() { return reshape(arange(16, DType::f32), {1, 1, 4, 4}); }

TEST(PoolLayers, GiveTheWindowsOfTheirOptions) {
  EXPECT_EQ(MaxPool2d(2)(image()).to_vector<double>(), (std::vector<double>{5, 7, 13, 15}));
  EXPECT_EQ(AvgPool2d(2)(image()).to_vector<double>(), (std::vector<double>{2.5, 4.5, 10.5, 12.5}));
  EXPECT_EQ(MaxPool2d({1, 4}, {.stride = 2})(image()).to_vector<double>(), (std::vector<double>{3, 11}));
  EXPECT_EQ(
      AvgPool2d(4, {.stride = 4, .padding = 2, .count_include_pad = false})(image()).to_vector<double>(),
      (std::vector<double>{2.5, 4.5, 10.5, 12.5}));
}

TEST(PoolLayers, SayTheirOptions) {
  EXPECT_EQ(MaxPool2d(3, {.stride = 2, .padding = 1}).extra_repr(),
            "kernel=(3, 3), stride=(2, 2), padding=(1, 1)");
  EXPECT_EQ(AvgPool2d(2, {.count_include_pad = false}).extra_repr(),
            "kernel=(2, 2), stride=(2, 2), count_include_pad=false");
}

}  // namespace
}  // namespace reprise::nn
