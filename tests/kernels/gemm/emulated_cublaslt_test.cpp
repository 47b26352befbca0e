// The emulator's model of cuBLASLt: it refuses what the library documents as unsupported, and the products of a training
// step go to it, one call each where the library fuses their epilogue.
// also by cuBLASLt
#include "reprise/kernels/gemm/cublaslt_emulated.h"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/gemm/cublaslt_library.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

class CublasLtModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!library_ || !reprise::testing::test_device().is_cuda())
      GTEST_SKIP() << "set REPRISE_EMULATOR_CUBLASLT and REPRISE_TEST_DEVICE=cuda";
  }
  const vendor::CublasLt* library_ = vendor::cublaslt_library();
};

/// What the heuristic is asked for: D (24, 16) = A (24, 32) B (32, 16).
struct Question {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F, a = CUDA_R_16BF, b = CUDA_R_16BF, c = CUDA_R_16BF, d = CUDA_R_16BF;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  uintptr_t bias = 256, aux = 256;
  int64_t aux_leading = 24, rows_of_d = 24;
};

cublasStatus_t ask(const vendor::CublasLt& library, const Question& q) {
  cublasLtMatmulDescOpaque_t operation;
  library.matmul_desc_init(&operation, sizeof(operation), q.compute, q.scale);
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    EXPECT_EQ(library.matmul_desc_set(&operation, attribute, &value, sizeof(value)), CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, q.epilogue);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, q.bias);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, q.aux);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, q.aux_leading);
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  library.matrix_layout_init(&a, sizeof(a), q.a, 24, 32, 24);
  library.matrix_layout_init(&b, sizeof(b), q.b, 32, 16, 32);
  library.matrix_layout_init(&c, sizeof(c), q.c, uint64_t(q.rows_of_d), 16, q.rows_of_d);
  library.matrix_layout_init(&d, sizeof(d), q.d, uint64_t(q.rows_of_d), 16, q.rows_of_d);
  cublasLtMatmulPreferenceOpaque_t preference;
  library.preference_init(&preference, sizeof(preference));
  const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const uint64_t workspace = 1 << 20;
  library.preference_set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                         sizeof(reduction));
  library.preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                         sizeof(workspace));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  return library.algo_get_heuristic(nullptr, &operation, &a, &b, &c, &d, &preference, 1, &result, &found);
}

TEST_F(CublasLtModel, KnowsTheTableOfTypes) {
  const auto ok = CUBLAS_STATUS_SUCCESS, no = CUBLAS_STATUS_NOT_SUPPORTED;
  auto types = [&](cudaDataType_t factor, cudaDataType_t result, cublasComputeType_t compute,
                   cudaDataType_t scale) {
    return ask(*library_, {compute, scale, factor, factor, result, result});
  };
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F), ok);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F), ok);
  EXPECT_EQ(types(CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F), ok);
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), ok);
  EXPECT_EQ(types(CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F), ok);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F), no);
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F), no);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_64F, CUDA_R_64F), no);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), no);
  EXPECT_EQ(ask(*library_, {.b = CUDA_R_16F}), no);
  EXPECT_EQ(ask(*library_, {.c = CUDA_R_32F}), no);
  EXPECT_EQ(ask(*library_, {.rows_of_d = 25}), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLtModel, KnowsWhatEpiloguesNeed) {
  const auto ok = CUBLAS_STATUS_SUCCESS, no = CUBLAS_STATUS_NOT_SUPPORTED, bad = CUBLAS_STATUS_INVALID_VALUE;
  const uint32_t gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  EXPECT_EQ(ask(*library_, {.epilogue = gelu}), ok);
  EXPECT_EQ(ask(*library_, {.epilogue = gelu, .aux_leading = 28}), bad);
  EXPECT_EQ(ask(*library_, {.epilogue = gelu, .aux_leading = 16}), bad);
  EXPECT_EQ(ask(*library_, {.epilogue = gelu, .aux = 0}), bad);
  EXPECT_EQ(ask(*library_, {.epilogue = gelu, .aux = 264}), no);
  EXPECT_EQ(ask(*library_, {.epilogue = gelu, .bias = 0}), bad);
  EXPECT_EQ(ask(*library_, {.epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = 258}), no);
  EXPECT_EQ(ask(*library_, {.compute = CUBLAS_COMPUTE_64F,
                            .scale = CUDA_R_64F,
                            .a = CUDA_R_64F,
                            .b = CUDA_R_64F,
                            .c = CUDA_R_64F,
                            .d = CUDA_R_64F,
                            .epilogue = CUBLASLT_EPILOGUE_BIAS}),
            no);
  cublasLtMatmulDescOpaque_t operation;
  library_->matmul_desc_init(&operation, sizeof(operation), CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const int64_t wide = CUBLASLT_EPILOGUE_BIAS;  // the attribute has 32 bits
  EXPECT_EQ(library_->matmul_desc_set(&operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &wide, sizeof(wide)), bad);
}

/// Calls of the library for one of gemm.
int64_t calls_for(const GemmArguments& arguments) {
  const int64_t before = emulated::cublaslt_calls();
  run_kernel(gemm, arguments);
  return emulated::cublaslt_calls() - before;
}

TEST_F(CublasLtModel, GetsTheProductsOfAStep) {
  for (DType result : {DType::bf16, DType::f32}) {
    SCOPED_TRACE(result);
    Array a({12, 40}, DType::bf16), b({40, 24}, DType::bf16), c({12, 24}, result), bias({24}, result),
        residual({12, 24}, result), pre({12, 24}, result), sums({12}, result);
    uint64_t seed = 0;
    for (Array* x : {&a, &b, &c, &bias, &residual, &pre, &sums}) x->randomize(++seed);
    auto calls = [&](const Epilogue& e) {
      return calls_for({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = e});
    };
    EXPECT_EQ(calls({}), 1);
    EXPECT_EQ(calls({.accumulate = true}), 1);
    EXPECT_EQ(calls({.bias = bias.view(), .residual = residual.view()}), 1);
    EXPECT_EQ(calls({.bias = bias.view(), .activation = Activation::relu, .pre_activation = pre.view()}), 1);
    EXPECT_EQ(calls({.bias = bias.view(), .activation = Activation::gelu_tanh, .pre_activation = pre.view()}),
              1);
    EXPECT_EQ(calls({.activation = Activation::gelu_tanh, .dactivation = pre.view()}), 1);
    EXPECT_EQ(calls({.bias_gradient = sums.view()}), 1);  // the product alone
    // Every second column has no stride that the library knows.
    EXPECT_EQ(
        calls_for(
            {.a = slice(Array({12, 80}, DType::bf16).view(), 1, 0, 80, 2), .b = b.view(), .c = c.view()}),
        0);
  }
}

// Autocast's bias: what cuBLASLt adds is the bias in the result's dtype, wherever the one in f32 begins.
TEST_F(CublasLtModel, RoundsAnF32BiasBesideSixteenBits) {
  Array a({12, 40}, DType::bf16), b({40, 24}, DType::bf16), want({12, 24}, DType::bf16),
      c({12, 24}, DType::bf16);
  Array wide({25}, DType::f32), narrow({24}, DType::bf16);
  a.randomize(1), b.randomize(2), wide.randomize(3);
  for (const int64_t begin : {0, 1}) {
    const TensorView bias = slice(wide.view(), 0, begin, begin + 24);
    run_kernel(copy, bias, narrow.view());
    EXPECT_EQ(
        calls_for({.a = a.view(), .b = b.view(), .c = want.view(), .epilogue = {.bias = narrow.view()}}), 1);
    EXPECT_EQ(calls_for({.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = {.bias = bias}}), 1)
        << begin;
    EXPECT_EQ(c.values(), want.values()) << begin;
  }
}

}  // namespace
}  // namespace reprise::kernels::testing
