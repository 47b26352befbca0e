// Some tokens of each sample, against the product with one-hot rows.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

Tensor indices(int64_t samples, int64_t count, int64_t tokens) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < samples * count; ++i) values.push_back(i * 7919 % tokens);
  return Tensor::from(values, {samples, count});
}

TEST(TakeTokens, PassesEveryCheckOfAnOpWithRepeatedIndices) {
  Tensor index = Tensor::from<int64_t>({4, 0, 4, 4, 2, 1}, {2, 3});
  check_op(
      OpCase{.name = "take_tokens",
             .inputs = {{{2, 5, 3}}, {.shape = {2, 3}, .values = index}},
             .fn = [](const TensorList& in) { return take_tokens(in[0], in[1]); },
             .composite =
                 [](const TensorList& in) {
                   Tensor rows = one_hot(in[1], 5, in[0].dtype());  // (2, 3, 5)
                   return matmul(rows, in[0]);
                 },
             .roundings = 4,  // three gradients meet in one token
             .empty_inputs = {{{2, 5, 3}}, {.shape = {2, 0}, .values = Tensor::empty({2, 0}, DType::i64)}},
             .large_inputs = {{{3, 97, 33}}, {.shape = {3, 301}, .values = indices(3, 301, 97)}}});
}

TEST(TakeTokens, RefusesWhatDoesNotFit) {
  Tensor x = zeros({2, 5, 3});
  // Inside of the batch, but not of its sample.
  expect_error(
      [&] {
        take_tokens(x, Tensor::from<int64_t>({0, 5}, {2, 1}));
      },
      "take_tokens: index 5 at (1, 0) is outside [0, 5)");
  expect_error(
      [&] {
        take_tokens(x, Tensor::from<int64_t>({-1, 0}, {2, 1}));
      },
      "take_tokens: index -1 at (0, 0) is outside [0, 5)");
  expect_error([&] { take_tokens(x, zeros({2, 1})); }, "take_tokens: the index must be i64 or i32, got f32");
  expect_error([&] { take_tokens(x, zeros({3, 1}, DType::i64)); }, {"take_tokens", "(2, 5, 3)", "(3, 1)"});
  expect_error([&] { take_tokens(zeros({5, 3}), zeros({5, 1}, DType::i64)); }, {"take_tokens", "(5, 3)"});
}

}  // namespace
}  // namespace reprise
