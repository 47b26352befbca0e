// What cuBLASLt is told of logits whose vocabulary is odd: columns, our rows, that begin at multiples of 16 bytes, in the
// product that writes them and in both that read their gradient.
// also by cuBLASLt
#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/kernels/gemm/cublaslt_emulated.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using kernels::emulated::cublaslt_model;
using kernels::emulated::CublasLtLeadings;
using kernels::emulated::CublasLtRecord;
using testing::test_device;

TEST(EmulatedCublasLtLogits, BeginAtMultiplesOfSixteenBytesInAllThreeProducts) {
  if (cublaslt_model() == kernels::emulated::CublasLtModel::none || !test_device().is_cuda())
    GTEST_SKIP() << "set REPRISE_EMULATOR_CUBLASLT and REPRISE_TEST_DEVICE=cuda";
  constexpr int64_t rows = 6, width = 8, vocabulary = 1031;
  const std::pair<DType, int64_t> cases[] = {{DType::bf16, 1088}, {DType::f16, 1088}, {DType::f32, 1056}};
  for (const auto& [dtype, leading] : cases)
    for (double upstream : {1.0, 8.0}) {
      SCOPED_TRACE(::testing::Message() << dtype << ", the gradient of the loss is " << upstream);
      Generator generator(3);
      auto leaf = [&, dtype = dtype](const Shape& shape) {
        return randn(shape, DType::f32, {}, &generator).to(dtype).to(test_device()).set_requires_grad();
      };
      const Tensor x = leaf({rows, width}), weight = leaf({vocabulary, width});
      const Tensor targets = Tensor::zeros({rows}, DType::i64, test_device());
      CublasLtRecord record;
      (cross_entropy(linear(x, weight), targets) * upstream).backward();
      ASSERT_EQ(record.calls.size(), 3u);
      const auto& [forward, of_x, of_weight] = std::tie(record.calls[0], record.calls[1], record.calls[2]);
      // Its A is our B, its D our C: logits = x W^T, dx = dlogits W, dW = dlogits^T x.
      EXPECT_EQ(forward.d, leading) << "the logits";
      EXPECT_EQ(of_x.b, leading) << "their gradient, times the weight";
      EXPECT_EQ(of_weight.b, leading) << "their gradient, for that of the weight";
    }
}

}  // namespace
}  // namespace reprise
