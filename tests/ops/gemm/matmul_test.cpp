// Matrix products, against three loops.
// also by cuBLASLt
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// a (batch_a, M, K) times b (batch_b, K, N), each batch 1 or the same.
std::vector<double> multiply(const Tensor& a, const Tensor& b, size_t batch_a, size_t batch_b) {
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>(), c;
  size_t m = size_t(a.size(-2)), k = size_t(a.size(-1)), n = size_t(b.size(-1));
  for (size_t s = 0; s < std::max(batch_a, batch_b); ++s)
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double total = 0;
        for (size_t p = 0; p < k; ++p)
          total +=
              x[(batch_a > 1 ? s * m * k : 0) + i * k + p] * y[(batch_b > 1 ? s * k * n : 0) + p * n + j];
        c.push_back(total);
      }
  return c;
}

void check_shapes(const Shape& a, const Shape& b, size_t batch_a, size_t batch_b) {
  check_op(OpCase{
      .name = detail::join("matmul ", a, b),
      .inputs = {{a}, {b}},
      .fn = [](const TensorList& in) { return matmul(in[0], in[1]); },
      .reference = [=](const TensorList& in) { return multiply(in[0], in[1], batch_a, batch_b); },
      .roundings = 8,  // sums of 5 products, in f32 at least; gradients sum over a batch too
  });
}

TEST(Matmul, PassesEveryCheckOfAnOp) {
  check_shapes({3, 5}, {5, 7}, 1, 1);
  check_shapes({2, 3, 5}, {2, 5, 7}, 2, 2);
  check_shapes({2, 3, 5}, {5, 7}, 2, 1);
  check_shapes({3, 5}, {2, 5, 7}, 1, 2);
  check_shapes({2, 1, 3, 5}, {1, 1, 5, 3}, 2, 1);
}

TEST(Matmul, OfLargeMatricesIsExactAcrossThreadsAndOfEmptyOnesIsZero) {
  check_op(OpCase{
      .name = "matmul",
      .inputs = {{{3, 5}}, {{5, 7}}},
      .fn = [](const TensorList& in) { return matmul(in[0], in[1]); },
      .composite = [](const TensorList& in) { return sum(unsqueeze(in[0], 2) * unsqueeze(in[1], 0), {1}); },
      .empty_inputs = {{{3, 0}}, {{0, 7}}},
      .large_inputs = {{{201, 133}, -1, 1}, {{133, 157}, -1, 1}}});
}

TEST(Matmul, TakesAVectorForARowOrAColumn) {
  auto check_vectors = [](const Shape& a, const Shape& b, const auto& composite) {
    check_op(OpCase{.name = detail::join("matmul ", a, b),
                    .inputs = {{a}, {b}},
                    .fn = [](const TensorList& in) { return matmul(in[0], in[1]); },
                    .composite = composite,
                    .roundings = 8});
  };
  check_vectors({5}, {5}, [](const TensorList& in) { return sum(in[0] * in[1]); });
  check_vectors({3, 5}, {5}, [](const TensorList& in) { return sum(in[0] * in[1], {-1}); });
  check_vectors({2, 3, 5}, {5}, [](const TensorList& in) { return sum(in[0] * in[1], {-1}); });
  check_vectors({5}, {5, 7}, [](const TensorList& in) { return sum(unsqueeze(in[0], 1) * in[1], {-2}); });
  check_vectors({5}, {2, 5, 7}, [](const TensorList& in) { return sum(unsqueeze(in[0], 1) * in[1], {-2}); });
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  expect_error([] { matmul(zeros({3, 5}), zeros({4, 7})); }, {"matmul", "(3, 5)", "(4, 7)"});
  expect_error([] { matmul(zeros({4}), zeros({3, 7})); }, {"matmul: inner sizes differ: (4,) and (3, 7)"});
  expect_error([] { matmul(zeros({3, 4}), zeros({3})); }, {"matmul: inner sizes differ: (3, 4) and (3,)"});
  expect_error([] { matmul(zeros({}), zeros({3})); }, {"matmul: needs vectors or matrices, got () and (3,)"});
  expect_error([] { matmul(zeros({3, 5}), zeros({5, 7}, DType::f64)); }, {"matmul", "f32", "f64"});
  expect_error([] { matmul(zeros({2, 3, 5}), zeros({3, 5, 7})); }, {"matmul"});
}

}  // namespace
}  // namespace reprise
