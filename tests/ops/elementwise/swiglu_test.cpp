// SwiGLU against silu and a product.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

TEST(Swiglu, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "swiglu",
                  .inputs = {{{3, 5}}, {{3, 5}}},
                  .fn = [](const TensorList& in) { return swiglu(in[0], in[1]); },
                  .composite = [](const TensorList& in) { return composite::swiglu(in[0], in[1]); },
                  .empty_inputs = {{{3, 0}}, {{3, 0}}},
                  .large_inputs = {{{301, 307}}, {{301, 307}}}});
}

TEST(Swiglu, RefusesWhatDoesNotFit) {
  expect_error([] { swiglu(zeros({3, 5}), zeros({5})); }, {"swiglu", "(3, 5)", "(5,)"});
  expect_error([] { swiglu(zeros({3}), zeros({3}, DType::f64)); }, {"swiglu", "f64"});
}

}  // namespace
}  // namespace reprise
