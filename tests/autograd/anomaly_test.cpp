// Anomaly mode: the first bad gradient, and where it came from.
#include "reprise/autograd/anomaly.h"

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;

TEST(AnomalyMode, NamesTheForwardOpItsArgumentsAndItsScope) {
  AnomalyMode anomaly;
  Tensor x = Tensor::from<float>({0, 4}, {2}).set_requires_grad(), y;
  {
    OpScope outer("block 3");
    OpScope inner("attention");
    y = sqrt(x);
  }
  expect_error([&] { (y * 2.0).sum().backward(); }, {"sqrt", "f32(2,)", "in block 3 / attention", "inf"});
  EXPECT_FALSE(x.grad().defined());
}

TEST(AnomalyMode, FindsNan) {
  AnomalyMode anomaly;
  Tensor x = Tensor::from<float>({-1}, {1}).set_requires_grad();
  expect_error([&] { log(sqrt(x)).backward(); }, {"log", "NaN"});
}

TEST(AnomalyMode, LetsFiniteGradientsThrough) {
  AnomalyMode anomaly;
  Tensor x = Tensor::from<float>({3}, {1}).set_requires_grad();
  square(x).backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(AnomalyMode, IsOffOutsideItsScopeAndNests) {
  EXPECT_FALSE(autograd::anomaly_mode_enabled());
  {
    AnomalyMode on;
    {
      AnomalyMode off(false);
      EXPECT_FALSE(autograd::anomaly_mode_enabled());
    }
    EXPECT_TRUE(autograd::anomaly_mode_enabled());
  }
  EXPECT_FALSE(autograd::anomaly_mode_enabled());
  Tensor x = Tensor::from<float>({0}, {1}).set_requires_grad();
  EXPECT_NO_THROW(sqrt(x).backward());
}

TEST(AnomalyMode, NamesTheOpEvenIfForwardRanWithoutIt) {
  Tensor x = Tensor::from<float>({0}, {1}).set_requires_grad(), y = sqrt(x);
  AnomalyMode anomaly;
  expect_error([&] { y.backward(); }, {"sqrt"});
}

TEST(OpScope, GivesItsPathAndEndsWithTheScope) {
  EXPECT_EQ(autograd::anomaly_location(), "");
  {
    OpScope scope("head");
    EXPECT_EQ(autograd::anomaly_location(), " in head");
  }
  EXPECT_EQ(autograd::anomaly_location(), "");
}

}  // namespace
}  // namespace reprise
