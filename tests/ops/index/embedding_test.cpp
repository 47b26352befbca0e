// Rows of a table.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;

Tensor many_indices(int64_t count, int64_t rows) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i * 7919 % rows);
  return Tensor::from(indices, {count});
}

TEST(Embedding, PassesEveryCheckOfAnOpWithRepeatedIndices) {
  Tensor indices = Tensor::from<int64_t>({4, 0, 4, 4, 2, 1}, {2, 3});
  check_op(OpCase{.name = "embedding",
                  .inputs = {{{5, 3}}, {.shape = {2, 3}, .values = indices}},
                  .fn = [](const TensorList& in) { return embedding(in[0], in[1]); },
                  .composite =
                      [](const TensorList& in) {
                        Tensor rows = one_hot(in[1], 5, in[0].dtype());  // (2, 3, 5)
                        return matmul(rows, in[0]);
                      },
                  .roundings = 4,  // three gradients meet in one row
                  .empty_inputs = {{{5, 3}}, {.shape = {0}, .values = Tensor::empty({0}, DType::i64)}},
                  .large_inputs = {{{97, 33}}, {.shape = {3001}, .values = many_indices(3001, 97)}}});
}

// A tied head: the table's gradient meets that of a linear layer, whichever comes first.
TEST(Embedding, SharesItsTableWithOtherOps) {
  Generator generator(1);
  Tensor table = randn({5, 3}, DType::f64, {}, &generator).set_requires_grad();
  Tensor indices = Tensor::from<int64_t>({4, 0, 4}, {3}), targets = Tensor::from<int64_t>({1, 2, 4}, {3});
  auto loss = [&](const Tensor& rows, const Tensor& head) {
    return cross_entropy(linear(tanh(embedding(rows, indices)), head), targets);
  };
  Tensor first = table.detach().set_requires_grad(), second = table.detach().set_requires_grad();
  loss(first, second).backward();
  Tensor want = first.grad() + second.grad();

  int calls = 0;
  auto remove = table.register_hook([&](const Tensor& gradient) {
    ++calls;
    EXPECT_TRUE(is_close(gradient, want, 1e-15));  // one rounding of the sum, in another order
    return Tensor();
  });
  Tensor tied = loss(table, table);
  tied.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(is_close(table.grad(), want, 1e-15));
  tied.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(is_close(table.grad(), want * 2.0, 2e-15));
  EXPECT_TRUE(is_close(grad({tied}, {table})[0], want, 1e-15));
  EXPECT_EQ(calls, 3);
  remove();
  EXPECT_TRUE(is_close(grad({loss(table, table)}, {table}, {}, {.create_graph = true})[0], want, 1e-14));

  auto twice = [&](const TensorList& in) {
    return TensorList{loss(in[0], in[0]) + sum(embedding(in[0], indices))};
  };
  EXPECT_TRUE(gradcheck(twice, {table}));
  EXPECT_TRUE(gradgradcheck(twice, {table}));
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Tensor table = zeros({5, 3});
  expect_error([&] { embedding(table, Tensor::from<int64_t>({1, 5}, {2})); }, {"embedding", "5"});
  expect_error([&] { embedding(table, Tensor::from<int64_t>({-1}, {1})); }, {"embedding", "-1"});
  expect_error([&] { embedding(table, Tensor::from<float>({1}, {1})); }, {"embedding", "i64", "f32"});
  expect_error([&] { embedding(zeros({5}), Tensor::from<int64_t>({1}, {1})); }, {"embedding", "(5,)"});
}

TEST(Embedding, AddsToAPendingGradientWithTheSameBitsWhoeverHoldsIt) {
  auto gradient = [](bool is_held) {
    Generator generator(3);
    Tensor w = randn({4, 50}, DType::f32, testing::test_device(), &generator).set_requires_grad();
    Tensor indices = Tensor::from<int64_t>({1, 1, 1, 2}, {4}).to(w.device());
    Tensor rows = embedding(w, indices), shifted = w + 1.0;
    if (is_held) shifted.retain_grad();
    (sum(sin(rows)) + sum(square(shifted)) * 0.1).backward();
    return w.grad();
  };
  EXPECT_TRUE(testing::same_bits(gradient(true), gradient(false)));
}

}  // namespace
}  // namespace reprise
