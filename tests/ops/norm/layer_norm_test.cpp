// Layer normalisation against mean, square and rsqrt.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

constexpr double kEps = 1e-5;

TEST(LayerNorm, PassesEveryCheckOfAnOp) {
  check_op(OpCase{
      .name = "layer_norm",
      .inputs = {{{2, 3, 7}}, {{7}, 0.5, 1.5}, {{7}}},
      .fn = [](const TensorList& in) { return layer_norm(in[0], in[1], in[2], kEps); },
      .composite = [](const TensorList& in) { return composite::layer_norm(in[0], in[1], in[2], kEps); },
      .roundings = 16,  // dgamma and dbeta sum over all rows, dx is a difference of three terms
      .empty_inputs = {{{0, 7}}, {{7}}, {{7}}},
      .large_inputs = {{{301, 129}}, {{129}}, {{129}}}});
}

TEST(LayerNorm, GoesWithoutGammaAndBeta) {
  check_op(
      OpCase{.name = "layer_norm of x alone",
             .inputs = {{{3, 5}}},
             .fn = [](const TensorList& in) { return layer_norm(in[0], {}, {}, kEps); },
             .composite = [](const TensorList& in) { return composite::layer_norm(in[0], {}, {}, kEps); },
             .roundings = 16});
  check_op(
      OpCase{.name = "layer_norm without beta",
             .inputs = {{{3, 5}}, {{5}}},
             .fn = [](const TensorList& in) { return layer_norm(in[0], in[1], {}, kEps); },
             .composite = [](const TensorList& in) { return composite::layer_norm(in[0], in[1], {}, kEps); },
             .roundings = 16});
}

TEST(LayerNorm, RefusesParametersOfAnotherSizeOrDtype) {
  expect_error([] { layer_norm(zeros({3, 5}), ones({4}), {}); }, {"layer_norm", "(4,)"});
  expect_error([] { layer_norm(zeros({3, 5}), ones({5}), zeros({6})); }, {"layer_norm", "(6,)"});
  expect_error([] { layer_norm(zeros({3, 5}), ones({5}, DType::f64), {}); }, {"layer_norm", "f64"});
  expect_error([] { layer_norm(scalar(1), {}, {}); }, {"layer_norm"});
}

}  // namespace
}  // namespace reprise
