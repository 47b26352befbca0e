// labels: slow
// The gradient of f16 logits of GPT-2's size: the mean over a batch makes it smaller than f16's least number, and the
// loss scale brings it back, if nothing is rounded before.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::test_device;

constexpr int64_t kRowsOfMean = 1024, kClasses = 50257;

int64_t zeros_in(const Tensor& x) {
  const Tensor here = x.to(Device::cpu());
  const auto* numbers = static_cast<const Float16*>(here.view().data);
  return std::count_if(numbers, numbers + here.numel(), [](Float16 number) { return float(number) == 0; });
}

// How many elements of the gradient of the mean loss, times `scale`, are 0 in f16.
int64_t lost(const Tensor& logits, const Tensor& targets, double scale, DType computed_in) {
  const Tensor x = logits.to(computed_in).detach().set_requires_grad();
  Tensor loss;
  {
    amp::Autocast scope(test_device(), DType::f16);
    loss = cross_entropy(x, targets);
  }
  // The emulator takes fewer rows than the mean is over.
  (loss * (scale * double(targets.numel()) / double(kRowsOfMean))).backward();
  return zeros_in(x.grad().to(DType::f16));
}

TEST(GptF16, LogitsGradientSurvivesTheMean) {
  const int64_t rows = test_device().is_cpu() ? kRowsOfMean : 4;
  Generator generator(5);
  Tensor logits = randn({rows, kClasses}, DType::f16, Device::cpu(), &generator).to(test_device());
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < rows; ++i) classes.push_back(i * 7919 % kClasses);
  const Tensor targets = Tensor::from(classes, {rows}).to(test_device());
  EXPECT_LE(lost(logits, targets, 65536, DType::f16), lost(logits, targets, 65536, DType::f32));
  EXPECT_GT(lost(logits, targets, 1, DType::f16), rows * kClasses / 2);
}

}  // namespace
}  // namespace reprise
