// The CPU's matrix multiply through a BLAS agrees with our own, which gemm_test.cpp holds against loops.
#include "reprise/kernels/gemm/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/kernels/gemm/gemm.h"

namespace reprise::kernels {
namespace {

const Stream cpu{Device::cpu()};

/// Leaves the process with our own backend, whatever a test does.
struct BackendScope {
  explicit BackendScope(GemmBackend backend) { set_gemm_backend(backend); }
  ~BackendScope() { set_gemm_backend(GemmBackend::own); }
};

template <class T>
struct Numbers {
  std::vector<T> values;
  TensorView view;

  Numbers(const Shape& shape, uint32_t seed) : values(size_t(numel_of(shape))) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (T& value : values) value = T(uniform(random));
    view = {values.data(), shape, contiguous_strides(shape), dtype_of<T>, Device::cpu()};
  }
};

/// Runs `multiply(c, pre_activation)` with both backends and compares what they write. Each of the K
/// additions of either side rounds by half a unit of sums of about sqrt(K).
template <class T, class Multiply>
void expect_backends_agree(const Shape& shape, int64_t k, Multiply&& multiply) {
  Numbers<T> c_own(shape, 3), pre_own(shape, 4), c_blas(shape, 3), pre_blas(shape, 4);
  multiply(c_own.view, pre_own.view);
  {
    BackendScope scope(GemmBackend::blas);
    multiply(c_blas.view, pre_blas.view);
  }
  const double unit = sizeof(T) == 8 ? 1e-16 : sizeof(T) == 4 ? 6e-8 : 4e-3;
  const double limit = unit * (10 + (sizeof(T) == 2 ? 0 : double(k)));
  for (size_t i = 0; i < c_own.values.size(); ++i) {
    const double want = c_own.values[i], wanted_pre = pre_own.values[i];
    ASSERT_NEAR(c_blas.values[i], want, limit * (1 + std::abs(want))) << "C at " << i;
    ASSERT_NEAR(pre_blas.values[i], wanted_pre, limit * (1 + std::abs(wanted_pre))) << "sums at " << i;
  }
}

template <class T>
void expect_layouts_agree(int64_t m, int64_t n, int64_t k) {
  for (int layout = 0; layout < 4; ++layout) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << ", layout " << layout);
    const bool transpose_a = layout & 1, transpose_b = layout & 2;
    Numbers<T> a(transpose_a ? Shape{k, m} : Shape{m, k}, 1), b(transpose_b ? Shape{n, k} : Shape{k, n}, 2);
    auto left = transpose_a ? transpose(a.view, 0, 1) : a.view;   // (M, K)
    auto right = transpose_b ? transpose(b.view, 0, 1) : b.view;  // (K, N)
    expect_backends_agree<T>({m, n}, k, [&](auto& c, auto&) { gemm(cpu, {.a = left, .b = right, .c = c}); });
  }
}

class Blas : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_blas()) GTEST_SKIP() << "this build has no BLAS (configure with -DREPRISE_BLAS=ON)";
  }
};

TEST_F(Blas, AgreesForAllLayouts) {
  const int64_t sizes[][3] = {{1, 1, 1},  {3, 5, 7},    {1, 33, 17},  {31, 1, 9},
                              {29, 7, 1}, {64, 48, 80}, {127, 66, 50}};
  for (auto [m, n, k] : sizes) {
    expect_layouts_agree<float>(m, n, k);
    expect_layouts_agree<double>(m, n, k);
    expect_layouts_agree<BFloat16>(m, n, k);  // not the BLAS's: it must still come out right
  }
}

TEST_F(Blas, LeavesEveryEpilogueToOurCode) {
  const int64_t m = 37, n = 21, k = 19;
  Numbers<float> a({m, k}, 1), b({k, n}, 2), bias({n}, 5), residual({m, n}, 6), saved({m, n}, 7);
  for (Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
    for (int options = 0; options < 16; ++options) {
      SCOPED_TRACE(testing::Message() << "activation " << int(activation) << " options " << options);
      expect_backends_agree<float>({m, n}, k, [&](auto& c, auto& pre_activation) {
        Epilogue e{.activation = activation, .accumulate = bool(options & 8)};
        if (options & 1) e.bias = bias.view;
        if (options & 2) e.pre_activation = pre_activation;
        if (options & 4) e.residual = residual.view;
        gemm(cpu, {.a = a.view, .b = b.view, .c = c, .epilogue = e});
      });
      expect_backends_agree<float>({m, n}, k, [&](auto& c, auto&) {
        gemm(cpu,
             {.a = a.view,
              .b = b.view,
              .c = c,
              .epilogue = {
                  .activation = activation, .dactivation = saved.view, .accumulate = bool(options & 8)}});
      });
    }
}

TEST_F(Blas, CutsEpiloguesIntoSlabs) {
  const int64_t m = 2100, n = 600, k = 2;  // over a million sums: two slabs
  Numbers<float> a({m, k}, 1), b({k, n}, 2), bias({n}, 5);
  expect_backends_agree<float>({m, n}, k, [&](auto& c, auto& pre_activation) {
    gemm(cpu,
         {.a = a.view,
          .b = b.view,
          .c = c,
          .epilogue = {.bias = bias.view, .activation = Activation::silu, .pre_activation = pre_activation}});
  });
}

TEST_F(Blas, LeavesOddStridesAndEmptySumsToOurCode) {
  Numbers<double> a({20, 30}, 1), b({30, 40}, 2), row({1, 15}, 8);
  expect_backends_agree<double>({20, 40}, 15, [&](auto& c, auto&) {
    auto left = slice(a.view, 1, 0, 30, 2);   // (20, 15)
    auto right = slice(b.view, 0, 0, 30, 2);  // (15, 40)
    gemm(cpu, {.a = left, .b = right, .c = c});
    gemm(cpu, {.a = expand(row.view, {20, 15}), .b = right, .c = c, .epilogue = {.accumulate = true}});
  });
  expect_backends_agree<double>({20, 40}, 1, [&](auto& c, auto&) {
    gemm(cpu, {.a = slice(a.view, 1, 0, 0), .b = slice(b.view, 0, 0, 0), .c = c});
  });
}

TEST_F(Blas, TakesBatches) {
  Numbers<float> a({4, 1, 5, 7}, 1), b({3, 7, 6}, 2);
  expect_backends_agree<float>({4, 3, 5, 6}, 7,
                               [&](auto& c, auto&) { gemm(cpu, {.a = a.view, .b = b.view, .c = c}); });
}

TEST(GemmBackend, IsOurOwnUnlessAskedFor) { EXPECT_EQ(gemm_backend(), GemmBackend::own); }

TEST(GemmBackend, IsAnErrorIfTheBuildHasNoBlas) {
  if (has_blas()) GTEST_SKIP() << "this build has a BLAS";
  try {
    set_gemm_backend(GemmBackend::blas);
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("REPRISE_BLAS"), std::string::npos) << error.what();
  }
  EXPECT_EQ(gemm_backend(), GemmBackend::own);
}

}  // namespace
}  // namespace reprise::kernels
