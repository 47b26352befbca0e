// Convolutions run on cuDNN where it is there, by an algorithm that is exact and repeats its bits; the emulator's model of
// it refuses what the library documents as wrong or unsupported.
// also by cuDNN
#include <cudnn.h>
#include <gtest/gtest.h>

#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/cuda/cudnn_emulated.h"
#include "reprise/kernels/cuda/cudnn_library.h"
#include "reprise/kernels/gemm/matmul_precision.h"
#include "reprise/tests/kernels/run.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

using emulated::cudnn_runs;
constexpr auto ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM;

class CudnnConvolution : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!vendor::has_cudnn()) GTEST_SKIP() << "set REPRISE_EMULATOR_CUDNN";
  }
};

/// y, dx and dweight of one convolution.
std::vector<std::vector<double>> run_all(DType dtype) {
  const Conv2dOptions options{.stride = {1, 2}, .padding = 1, .groups = 2};
  const Shape image{2, 6, 7, 8}, weight{4, 3, 3, 3};
  Array x(image, dtype), w(weight, dtype), bias({4}, dtype), y(conv2d_shape(image, weight, options), dtype);
  Array dx(image, dtype), dw(weight, dtype);
  x.randomize(1, -1, 1), w.randomize(2, -1, 1), bias.randomize(3, -1, 1);
  run_kernel(conv2d,
             {.x = x.view(), .weight = w.view(), .bias = bias.view(), .options = options, .y = y.view()});
  run_kernel(conv2d_dx, {.dy = y.view(), .weight = w.view(), .options = options, .dx = dx.view()});
  run_kernel(conv2d_dweight, {.dy = y.view(), .x = x.view(), .options = options, .dweight = dw.view()});
  return {y.values(), dx.values(), dw.values()};
}

TEST_F(CudnnConvolution, TakesEachPassAndRepeatsItsBits) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const int64_t before = cudnn_runs(), passes = size_of(dtype) > 2 ? 3 : 0;  // 16 bits are products of ours
    const auto first = run_all(dtype);
    EXPECT_EQ(cudnn_runs(), before + passes) << dtype;
    for (int again = 0; again < 3; ++again) EXPECT_EQ(run_all(dtype), first) << dtype;
  }
}

TEST_F(CudnnConvolution, RoundsF32ToTf32OnlyWhereThatIsAllowed) {
  const auto exact = run_all(DType::f32);
  const MatmulPrecisionScope scope(MatmulPrecision::high);
  const auto rounded = run_all(DType::f32);
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NE(rounded[i], exact[i]) << i;
}

TEST_F(CudnnConvolution, ModelRefusesWhatTheLibraryDoes) {
  using namespace vendor;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t how = nullptr;
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&x), ok);
  ASSERT_EQ(cudnnCreateTensorDescriptor(&y), ok);
  ASSERT_EQ(cudnnCreateFilterDescriptor(&w), ok);
  ASSERT_EQ(cudnnCreateConvolutionDescriptor(&how), ok);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 5, 5),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 2, 5, 5), bad);
  EXPECT_EQ(cudnnSetConvolution2dDescriptor(how, 0, 0, 0, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            bad);
  EXPECT_EQ(cudnnSetConvolution2dDescriptor(how, 0, 0, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 5, 5), ok);
  EXPECT_EQ(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 3, 2, 3, 3), ok);
  EXPECT_EQ(cudnnSetConvolution2dDescriptor(how, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            ok);
  EXPECT_EQ(cudnnSetConvolutionGroupCount(how, 0), bad);
  auto proposed = [&](cudnnDataType_t type, int channels, int height) {
    cudnnConvolutionFwdAlgoPerf_t best{};
    int count = 0;
    EXPECT_EQ(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, type, 1, channels, height, 3), ok);
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, how, y, 1, &count, &best);
  };
  EXPECT_EQ(proposed(CUDNN_DATA_FLOAT, 3, 3), ok);
  EXPECT_EQ(proposed(CUDNN_DATA_HALF, 3, 3), bad);
  EXPECT_EQ(proposed(CUDNN_DATA_FLOAT, 4, 3), bad);
  EXPECT_EQ(proposed(CUDNN_DATA_FLOAT, 3, 4), bad);
  for (cudnnTensorDescriptor_t each : {x, y}) cudnnDestroyTensorDescriptor(each);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(how);
}

}  // namespace
}  // namespace reprise::kernels::testing
