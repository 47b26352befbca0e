// The epilogue of a matrix multiply for sums that are computed elsewhere, as cuBLASLt leaves them,
// against its formula in f64: by packs and by elements.
#include "reprise/kernels/gemm/finish.h"

#include "reprise/tests/kernels/gemm/activation_reference.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

void finish_cuda(const Stream& stream, const TensorView& sums, const TensorView& c, const Epilogue& e) {
  finish_gemm(stream, sums, {{}, {}, c, e.pre_activation, e.residual, e.dactivation}, e);
}

Kernel<void(const TensorView& sums, const TensorView& c, const Epilogue& e)> finish{"finish", nullptr};
const OnCuda finish_on_cuda{finish, finish_cuda};

struct Case {
  Array sums, c, pre, residual, bias;

  Case(const Shape& shape, DType dtype, Layout layout)
      : sums(shape, dtype),
        c(shape, dtype, layout),
        pre(shape, dtype),
        residual(shape, dtype, layout),
        bias({shape.back()}, dtype, layout) {
    uint64_t seed = 0;
    for (Array* x : {&sums, &c, &pre, &residual, &bias}) x->randomize(++seed);
  }
};

// Activations and derivatives are good to some eight units of f32 or f64, and the sums they multiply are
// below 4; halves are rounded once more.
double tolerance_of(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 ? 32 * epsilon_of(dtype) : epsilon_of(dtype);
}

void expect_forward(const Shape& shape, DType dtype, Layout layout, Activation activation, bool accumulate) {
  Case x(shape, dtype, layout);
  const size_t width = size_t(shape.back());
  std::vector<double> want = x.sums.values(), before = want, old = x.c.values();
  const std::vector<double> bias = x.bias.values(), residual = x.residual.values();
  for (size_t i = 0; i < want.size(); ++i) {
    before[i] = want[i] + bias[i % width];
    want[i] = activation_at(activation, before[i]).value + residual[i] + (accumulate ? old[i] : 0);
  }
  const Epilogue epilogue{.bias = x.bias.view(),
                          .activation = activation,
                          .pre_activation = x.pre.view(),
                          .residual = x.residual.view(),
                          .accumulate = accumulate};
  run_kernel(finish, x.sums.view(), x.c.view(), epilogue);
  const std::string what = describe(shape, dtype, layout);
  expect_near(x.c.values(), want, tolerance_of(dtype), "C " + what);
  expect_near(x.pre.values(), before, tolerance_of(dtype), "pre_activation " + what);
  EXPECT_TRUE(x.c.surroundings_untouched() && x.pre.surroundings_untouched()) << what;
}

/// The sums lie in C itself.
void expect_backward(const Shape& shape, DType dtype, Layout layout, Activation activation) {
  Case x(shape, dtype, layout);
  std::vector<double> want = x.c.values(), factor = x.residual.values();
  for (size_t i = 0; i < want.size(); ++i) want[i] *= activation_at(activation, factor[i]).slope;
  const Epilogue epilogue{.activation = activation, .dactivation = x.residual.view()};
  run_kernel(finish, x.c.view(), x.c.view(), epilogue);
  expect_near(x.c.values(), want, tolerance_of(dtype), "dC " + describe(shape, dtype, layout));
}

TEST(GemmFinish, MatchesItsFormulaByPacksAndByElements) {
  if (reprise::testing::test_device() == Device::cpu()) GTEST_SKIP() << "device code";
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (Layout layout : {Layout::contiguous, Layout::offset})
      for (const Shape& shape : {Shape{5, 24}, Shape{3, 37}, Shape{2, 3, 2056}, Shape{2, 1}})
        for (Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::silu}) {
          expect_forward(shape, dtype, layout, activation, false);
          expect_backward(shape, dtype, layout, activation);
        }
  expect_forward({7, 264}, DType::bf16, Layout::contiguous, Activation::gelu, true);
}

}  // namespace
}  // namespace reprise::kernels::testing
