// Vectors of length 1 and cosines, against composites of sums and against numbers by hand.
#include "reprise/autograd/ops/reduce/similarity.h"

#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;

TEST(Normalize, PassesEveryCheckOfAnOp) {
  for (int64_t dim : {0, 1, -1})
    check_op(OpCase{
        .name = detail::join("normalize ", dim),
        .inputs = {{{2, 3, 4}}},
        .fn = [=](const TensorList& in) { return normalize(in[0], dim); },
        .composite = [=](const TensorList& in) { return in[0] / sqrt(sum(square(in[0]), {dim}, true)); },
        .roundings = 8});
  check_op(OpCase{.name = "normalize by sums",
                  .inputs = {{{3, 4}}},
                  .fn = [](const TensorList& in) { return normalize(in[0], -1, 1); },
                  .composite = [](const TensorList& in) { return in[0] / sum(abs(in[0]), {-1}, true); },
                  .roundings = 8});
}

TEST(Normalize, LeavesNothingWhereThereIsNoLength) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    EXPECT_EQ(
        normalize(Tensor::from<double>({3, 4, 0, 0}, {2, 2}).to(dtype), 1).to(DType::f32).to_vector<float>(),
        Tensor::from<double>({0.6, 0.8, 0, 0}, {2, 2}).to(dtype).to(DType::f32).to_vector<float>())
        << dtype;
  expect_error([] { normalize(ones({2}), 0, 2, -1); }, {"normalize: eps must be at least 0, got -1"});
  expect_error([] { normalize(ones({2}, DType::i64), 0); }, {"normalize: needs a floating dtype, got i64"});
}

TEST(CosineSimilarity, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "cosine_similarity",
                  .inputs = {{{2, 3, 4}}, {{3, 1}}},
                  .fn = [](const TensorList& in) { return cosine_similarity(in[0], in[1], 1); },
                  .composite =
                      [](const TensorList& in) {
                        const Tensor b = expand(in[1], in[0].shape());
                        return sum(in[0] * b, {1}) /
                               (sqrt(sum(square(in[0]), {1})) * sqrt(sum(square(b), {1})));
                      },
                  .roundings = 16});
}

TEST(CosineSimilarity, HasTheValuesOfAngles) {
  const Tensor a = Tensor::from<double>({1, 0, 2, 2, 0, 0}, {3, 2}), b = Tensor::from<double>({0, 3}, {2});
  EXPECT_TRUE(is_close(cosine_similarity(a, b, 1).to_vector<double>(), {0, std::sqrt(0.5), 0}, 1e-15));
  for (const auto& [first, second] : {std::pair{DType::f32, DType::f64}, {DType::f64, DType::f32}})
    EXPECT_EQ(cosine_similarity(a.to(first), b.to(second), 1).dtype(), DType::f64);
  EXPECT_EQ(cosine_similarity(a.to(DType::bf16), b.to(DType::f32), 1).dtype(), DType::f32);
  expect_error([&] { cosine_similarity(a, ones({3}, DType::f64), 1); },
               {"cosine_similarity", "(3, 2)", "(3,)"});
}

}  // namespace
}  // namespace reprise
