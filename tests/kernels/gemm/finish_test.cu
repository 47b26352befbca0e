// The epilogue of a matrix multiply for sums that are computed elsewhere, as cuBLASLt leaves them,
// against its formula in f64: by packs and by elements.
#include "reprise/kernels/gemm/finish.h"

#include "reprise/tests/kernels/gemm/activation_reference.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

/// For factors of `dtype`.
void finish_cuda(const Stream& stream, DType dtype, const TensorView& sums, const TensorView& c,
                 const Epilogue& e) {
  TensorView factors;
  factors.dtype = dtype;
  finish_gemm(stream, sums, {factors, {}, c, e.pre_activation, e.residual, e.dactivation}, e);
}

Kernel<void(DType dtype, const TensorView& sums, const TensorView& c, const Epilogue& e)> finish{"finish",
                                                                                                 nullptr};
const OnCuda finish_on_cuda{finish, finish_cuda};

struct Case {
  Array sums, c, pre, residual, bias, scale, row_scale;

  /// Tensors whose bit of `wide` is set, in the order above, are f32.
  Case(const Shape& shape, DType dtype, Layout layout, unsigned wide)
      : sums(shape, of(dtype, wide, 0)),
        c(shape, of(dtype, wide, 1), layout),
        pre(shape, of(dtype, wide, 2)),
        residual(shape, of(dtype, wide, 3), layout),
        bias({shape.back()}, of(dtype, wide, 4), layout),
        scale({shape.back()}, of(dtype, wide, 5), layout),
        row_scale({shape[0]}, of(dtype, wide, 6)) {
    uint64_t seed = 0;
    for (Array* x : {&sums, &c, &pre, &residual, &bias, &scale, &row_scale}) x->randomize(++seed);
  }

 private:
  static DType of(DType dtype, unsigned wide, int bit) { return wide >> bit & 1 ? DType::f32 : dtype; }
};

// Activations and derivatives are good to some eight units of f32 or f64, and the sums they multiply are
// below 4; halves are rounded once more.
double tolerance_of(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 ? 32 * epsilon_of(dtype) : epsilon_of(dtype);
}

void expect_forward(const Shape& shape, DType dtype, Layout layout, Activation activation, bool accumulate,
                    unsigned wide = 0) {
  Case x(shape, dtype, layout, wide);
  const size_t width = size_t(shape.back());
  std::vector<double> want = x.sums.values(), before = want, old = x.c.values();
  const std::vector<double> bias = x.bias.values(), residual = x.residual.values();
  const std::vector<double> scale = x.scale.values(), row_scale = x.row_scale.values();
  const bool scales = shape.size() == 2;  // a row is a sample
  for (size_t i = 0; i < want.size(); ++i) {
    before[i] = want[i] + bias[i % width];
    want[i] = activation_at(activation, before[i]).value * scale[i % width];
    if (scales) want[i] *= row_scale[i / width];
    want[i] += residual[i] + (accumulate ? old[i] : 0);
  }
  const Epilogue epilogue{.bias = x.bias.view(),
                          .activation = activation,
                          .pre_activation = x.pre.view(),
                          .residual = x.residual.view(),
                          .scale = x.scale.view(),
                          .row_scale = scales ? x.row_scale.view() : TensorView(),
                          .accumulate = accumulate};
  run_kernel(finish, dtype, x.sums.view(), x.c.view(), epilogue);
  const std::string what = describe(shape, dtype, layout) + ", f32: " + std::to_string(wide);
  expect_near(x.c.values(), want, tolerance_of(x.c.view().dtype), "C " + what);
  expect_near(x.pre.values(), before, tolerance_of(x.pre.view().dtype), "pre_activation " + what);
  EXPECT_TRUE(x.c.surroundings_untouched() && x.pre.surroundings_untouched()) << what;
}

/// The sums lie in C itself.
void expect_backward(const Shape& shape, DType dtype, Layout layout, Activation activation,
                     unsigned wide = 0) {
  Case x(shape, dtype, layout, wide);
  std::vector<double> want = x.c.values(), factor = x.residual.values();
  for (size_t i = 0; i < want.size(); ++i) want[i] *= activation_at(activation, factor[i]).slope;
  const Epilogue epilogue{.activation = activation, .dactivation = x.residual.view()};
  run_kernel(finish, dtype, x.c.view(), x.c.view(), epilogue);
  expect_near(x.c.values(), want, tolerance_of(x.c.view().dtype), "dC " + describe(shape, dtype, layout));
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

// Rows of f32 of 12 columns are whole packs, where those of 16 bits are not.
TEST(GemmFinish, TakesF32Beside16Bits) {
  if (reprise::testing::test_device() == Device::cpu()) GTEST_SKIP() << "device code";
  for (DType dtype : {DType::bf16, DType::f16})
    for (Layout layout : {Layout::contiguous, Layout::offset})
      for (const Shape& shape : {Shape{5, 24}, Shape{3, 12}, Shape{3, 37}, Shape{2, 3, 2056}}) {
        for (unsigned wide : {0x7fu, 0x01u, 0x02u, 0x04u, 0x08u, 0x10u, 0x20u, 0x40u, 0x55u, 0x7du})
          expect_forward(shape, dtype, layout, Activation::silu, wide & 1, wide);
        for (unsigned wide : {0x02u, 0x08u, 0x0au})
          expect_backward(shape, dtype, layout, Activation::gelu, wide);
      }
}

}  // namespace
}  // namespace reprise::kernels::testing
