// Root-mean-square normalisation against square, mean and rsqrt.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

constexpr double kEps = 1e-6;

TEST(RmsNorm, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "rms_norm",
                  .inputs = {{{2, 3, 7}}, {{7}, 0.5, 1.5}},
                  .fn = [](const TensorList& in) { return rms_norm(in[0], in[1], kEps); },
                  .composite = [](const TensorList& in) { return composite::rms_norm(in[0], in[1], kEps); },
                  .roundings = 16,  // dgamma sums over all rows, dx is a difference of two terms
                  .empty_inputs = {{{0, 7}}, {{7}}},
                  .large_inputs = {{{301, 129}}, {{129}}}});
}

TEST(RmsNorm, GoesWithoutGamma) {
  check_op(OpCase{.name = "rms_norm of x alone",
                  .inputs = {{{3, 5}}},
                  .fn = [](const TensorList& in) { return rms_norm(in[0], {}, kEps); },
                  .composite = [](const TensorList& in) { return composite::rms_norm(in[0], {}, kEps); },
                  .roundings = 16});
}

TEST(RmsNorm, RefusesAGammaOfAnotherSizeOrDtype) {
  expect_error([] { rms_norm(zeros({3, 5}), ones({4})); }, {"rms_norm", "(4,)"});
  expect_error([] { rms_norm(zeros({3, 5}), ones({5}, DType::f64)); }, {"rms_norm", "f64"});
}

}  // namespace
}  // namespace reprise
