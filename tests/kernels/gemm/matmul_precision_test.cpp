// How exact f32 products are is a matter of the process and of scopes, and `high` keeps what it says by every unit.
// also by cuBLASLt
// slow in tsan
#include "reprise/kernels/gemm/matmul_precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "reprise/kernels/cpu/simd.h"
#include "reprise/kernels/gemm/cublaslt.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr auto highest = MatmulPrecision::highest, high = MatmulPrecision::high;

struct ProcessPrecision {
  explicit ProcessPrecision(MatmulPrecision precision) { set_matmul_precision(precision); }
  ~ProcessPrecision() { set_matmul_precision(highest); }
};

TEST(GemmPrecision, IsTheInnermostScopesElseTheProcesss) {
  EXPECT_EQ(matmul_precision(), highest);
  ProcessPrecision process(high);
  EXPECT_EQ(matmul_precision(), high);
  {
    MatmulPrecisionScope outer(highest);
    EXPECT_EQ(matmul_precision(), highest);
    {
      MatmulPrecisionScope inner(high);
      EXPECT_EQ(matmul_precision(), high);
    }
    EXPECT_EQ(matmul_precision(), highest);
    std::thread([] { EXPECT_EQ(matmul_precision(), high); }).join();
  }
  EXPECT_EQ(matmul_precision(), high);
}

/// Whether this device rounds the factors of f32 products where it may.
bool device_rounds_factors() {
  return reprise::testing::test_device().is_cuda() ? vendor::has_cublaslt()
                                                   : simd::tiles() != simd::Tiles::none;
}

/// The root of the mean square of errors against f64, and the largest, in units of the sum of |a b|.
struct Errors {
  double root = 0, largest = 0;
};

Errors errors_of_product(MatmulPrecision precision, int64_t count, int64_t m, int64_t n, int64_t k) {
  Array a({count, m, k}, DType::f32), b({count, k, n}, DType::f32), c({count, m, n}, DType::f32);
  a.randomize(1, -1, 1), b.randomize(2, -1, 1);
  {
    MatmulPrecisionScope scope(precision);
    run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
  }
  const std::vector<double> x = a.values(), y = b.values(), z = c.values();
  Errors errors;
  for (int64_t matrix = 0; matrix < count; ++matrix)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          const double product = x[size_t((matrix * m + i) * k + p)] * y[size_t((matrix * k + p) * n + j)];
          sum += product, size += std::abs(product);
        }
        const double error = std::abs(z[size_t((matrix * m + i) * n + j)] - sum) / size;
        errors.root += error * error / double(c.view().numel());
        errors.largest = std::max(errors.largest, error);
      }
  errors.root = std::sqrt(errors.root);
  return errors;
}

TEST(GemmPrecision, HighRoundsFactorsWhereTheDeviceGainsByIt) {
  // Several products go to the threads of a pool, which have no scope of their own.
  for (int64_t count : {1, 24}) {
    const int64_t m = 208, n = 224, k = count == 1 ? 300 : 40;
    const Errors exact = errors_of_product(highest, count, m, n, k),
                 fast = errors_of_product(high, count, m, n, k);
    EXPECT_LE(exact.largest, double(k) * 0x1p-24) << count;  // half a unit for each addition
    if (!device_rounds_factors()) {
      EXPECT_EQ(fast.root, exact.root);
    } else if (reprise::testing::test_device().is_cuda()) {
      EXPECT_LE(fast.largest, 0x1p-10);  // both factors are rounded to 11 digits
      EXPECT_GE(fast.root, 0x1p-20);
    } else {
      EXPECT_LE(fast.largest, 0x1p-16);
      EXPECT_GE(fast.root, 2 * exact.root);
    }
  }
}

// As in PyTorch, which has its flags for f32 alone.
TEST(GemmPrecision, HighIsForF32Alone) {
  for (DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const int64_t m = 208, n = 224, k = 300;
    Array a({m, k}, dtype), b({k, n}, dtype);
    a.randomize(1, -1, 1), b.randomize(2, -1, 1);
    auto product = [&](MatmulPrecision precision) {
      Array c({m, n}, dtype == DType::f64 ? dtype : DType::f32);
      MatmulPrecisionScope scope(precision);
      run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
      return c.values();
    };
    EXPECT_EQ(product(high), product(highest)) << dtype;
  }
}

}  // namespace
}  // namespace reprise::kernels::testing
