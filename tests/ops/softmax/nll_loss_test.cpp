// The negative log-likelihood against loops, and against cross entropy.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;
using testing::OpInput;

Tensor targets() { return Tensor::from<int64_t>({4, -100, 0, 2}, {2, 2}); }

std::vector<double> by_loops(const Tensor& x, Reduction reduction) {
  const std::vector<double> values = x.to_vector<double>();
  const int64_t of[] = {4, -100, 0, 2};
  std::vector<double> losses;
  double total = 0;
  for (size_t row = 0; row < 4; ++row) {
    losses.push_back(of[row] < 0 ? 0 : -values[row * 5 + size_t(of[row])]);
    total += losses.back();
  }
  if (reduction == Reduction::none) return losses;
  return {reduction == Reduction::sum ? total : total / 3};
}

TEST(NllLoss, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    check_op(
        OpCase{.name = detail::join("nll_loss, reduction ", int(reduction)),
               .inputs = {{{2, 2, 5}}, OpInput{.shape = {2, 2}, .values = targets()}},
               .fn = [=](const TensorList& in) { return nll_loss(in[0], in[1], {.reduction = reduction}); },
               .reference = [=](const TensorList& in) { return by_loops(in[0], reduction); },
               .roundings = 8});
}

TEST(NllLoss, OfLogSoftmaxIsCrossEntropy) {
  manual_seed(3);
  const Tensor x = randn({2, 2, 5}, DType::f64);
  EXPECT_TRUE(is_close(nll_loss(log_softmax(x), targets()), cross_entropy(x, targets()), 1e-12));
}

TEST(NllLoss, OfNoRowThatCountsIsZero) {
  const Tensor x = ones({2, 3}), none = full({2}, -100, DType::i64);
  EXPECT_EQ(nll_loss(x, none).item(), 0);
  EXPECT_EQ(nll_loss(x, full({2}, 1, DType::i64), {.ignore_index = 1}).item(), 0);
}

TEST(NllLoss, NamesWhatDoesNotFit) {
  const Tensor x = ones({2, 3});
  expect_error(
      [&] {
        nll_loss(x, Tensor::from<int64_t>({0, 1, 2}, {3}));
      },
      {"nll_loss: targets are (3,), log-probabilities (2, 3)"});
  expect_error([&] { nll_loss(x, ones({2})); }, {"nll_loss", "targets i64", "f32"});
  expect_error([&] { nll_loss(x, Tensor::from<int64_t>({0, 3}, {2})); }, {"3", "[0, 3)"});
}

}  // namespace
}  // namespace reprise
