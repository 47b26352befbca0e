// Products of one to four rows, which the CPU reads B once for, against f64: every number of rows, columns at the edge of
// a strip, sums at the edges of vectors, each dtype and an epilogue.
#include <gtest/gtest.h>

#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/tests/kernels/gemm/gemm_reference.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

struct Numbers : Array {
  Numbers(const Shape& shape, DType dtype, uint64_t seed, Layout layout = Layout::contiguous)
      : Array(shape, dtype, layout) {
    randomize(seed, -1, 1);
  }
};

/// Some hundred products up to 1, whose sums are of the size of 10; a 16-bit result is rounded once more.
double tolerance_of(DType dtype) {
  if (dtype == DType::f64) return 1e-13;
  return 2e-5 + (dtype == DType::f32 ? 0 : 16 * epsilon_of(dtype));
}

// B is read along K: its columns are contiguous, as those of a weight's transpose are.
TEST(GemmFewRows, MatchF64) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (int64_t m : {1, 2, 3, 4, 5})
      for (auto [n, k] : {std::pair<int64_t, int64_t>{16, 64}, {31, 65}, {33, 127}, {100, 200}}) {
        SCOPED_TRACE(::testing::Message() << dtype << " " << m << " x " << n << " x " << k);
        Numbers a({m, k}, dtype, 1), b({k, n}, dtype, 2, Layout::reversed), c({m, n}, dtype, 3),
            bias({n}, dtype, 4), residual({m, n}, dtype, 5);
        for (bool ends : {false, true}) {
          const Epilogue epilogue =
              ends
                  ? Epilogue{.bias = bias.view(), .activation = Activation::relu, .residual = residual.view()}
                  : Epilogue{};
          const GemmArguments arguments{.a = a.view(), .b = b.view(), .c = c.view(), .epilogue = epilogue};
          const ExpectedProduct want = product_reference(a.view(), b.view(), c.view(), epilogue);
          run_kernel(gemm, arguments);
          expect_matrices(c.view(), want.c, tolerance_of(dtype), "C");
          EXPECT_TRUE(c.surroundings_untouched());
        }
      }
}

TEST(GemmFewRows, HaveTheSameBitsOnAnyThreadsAndBesideAnyRows) {
  if (reprise::testing::test_device().type == DeviceType::cuda) GTEST_SKIP() << "the CPU's";
  const int64_t n = 1000, k = 300;
  Numbers a({4, k}, DType::f32, 1), b({k, n}, DType::f32, 2, Layout::reversed), c({4, n}, DType::f32, 3);
  run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
  const std::vector<double> whole = c.values();
  const int threads = num_threads();
  for (int count : {1, 3}) {
    set_num_threads(count);
    run_kernel(gemm, {.a = a.view(), .b = b.view(), .c = c.view()});
    EXPECT_EQ(c.values(), whole) << count << " threads";
  }
  set_num_threads(threads);
  for (int64_t row = 0; row < 4; ++row) {
    Array one({1, k}, DType::f32), result({1, n}, DType::f32);
    one.fill_with([&](int64_t i) { return a.values()[size_t(row * k + i)]; });
    run_kernel(gemm, {.a = one.view(), .b = b.view(), .c = result.view()});
    EXPECT_EQ(result.values(), std::vector<double>(whole.begin() + row * n, whole.begin() + (row + 1) * n))
        << row;
  }
}

}  // namespace
}  // namespace reprise::kernels::testing
