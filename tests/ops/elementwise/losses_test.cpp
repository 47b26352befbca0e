// Losses whose terms are made of one number and its target.
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/losses.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

/// The reduction of terms(x[i], y[i]).
std::vector<double> reduced(const TensorList& in, Reduction reduction, const auto& term) {
  std::vector<double> x = in[0].to_vector<double>(), y = in[1].to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] = term(x[i], y[i]);
  if (reduction == Reduction::none) return x;
  return {reduction == Reduction::sum ? sum : sum / double(x.size())};
}

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

TEST(BceWithLogits, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("bce_with_logits, reduction ", int(reduction)),
                    .inputs = {{{3, 5}, -4, 4}, {{3, 5}, 0, 1}},
                    .fn = [=](const TensorList& in) { return bce_with_logits(in[0], in[1], reduction); },
                    .reference =
                        [=](const TensorList& in) {
                          return reduced(in, reduction, [](double x, double t) {
                            return t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
                          });
                        },
                    .roundings = 24,  // terms are rounded to a half type before they are added up
                    .large_inputs = {{{101, 203}}, {{101, 203}, 0, 1}}});
}

TEST(BceWithLogits, NeitherOverflowsNorCancels) {
  Tensor x = Tensor::from<float>({200, -200, 200, 20, -20}, {5});
  Tensor t = Tensor::from<float>({0, 1, 1, 1, 0}, {5});
  const std::vector<double> losses = bce_with_logits(x, t, Reduction::none).to_vector<double>();
  const double small = std::log1p(std::exp(-20.0));
  const double want[] = {200, 200, 0, small, small};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(losses[i], want[i], 1e-6 * want[i]) << i;  // a few roundings of f32
}

TEST(SmoothL1, PassesEveryCheckOfAnOp) {
  for (double beta : {1.0, 0.5, 0.0})
    for (Reduction reduction : kReductions)
      check_op(
          OpCase{.name = detail::join("smooth_l1, beta ", beta, ", reduction ", int(reduction)),
                 .inputs = {{{3, 5}, 1.2, 3, true}, {{3, 5}, -0.1, 0.1}},  // no kinks: |x - y| is 1.1 to 3.1
                 .fn =
                     [=](const TensorList& in) {
                       return smooth_l1(in[0], in[1], {.beta = beta, .reduction = reduction});
                     },
                 .reference =
                     [=](const TensorList& in) {
                       return reduced(in, reduction, [=](double x, double y) {
                         const double d = std::fabs(x - y);
                         return d < beta ? d * d / 2 / beta : d - beta / 2;
                       });
                     },
                 .roundings = 16,
                 .large_inputs = {{{101, 203}}, {{101, 203}}}});
}

TEST(SmoothL1, IsASquareNearZero) {
  check_op(OpCase{.name = "smooth_l1 within beta",
                  .inputs = {{{3, 5}, -0.4, 0.4}, {{3, 5}, -0.4, 0.4}},
                  .fn = [](const TensorList& in) { return smooth_l1(in[0], in[1], {.beta = 0.875}); },
                  .reference =
                      [](const TensorList& in) {
                        return reduced(in, Reduction::mean,
                                       [](double x, double y) { return (x - y) * (x - y) / 2 / 0.875; });
                      },
                  .roundings = 16});
}

TEST(Losses, RefuseWhatDoesNotFit) {
  Tensor x = zeros({2, 3});
  expect_error([&] { bce_with_logits(x, zeros({3})); }, "bce_with_logits: shapes differ: (2, 3) and (3,)");
  expect_error([&] { bce_with_logits(x, zeros({2, 3}, DType::i64)); }, {"bce_with_logits", "f32", "i64"});
  expect_error([&] { smooth_l1(x, zeros({3, 2})); }, "smooth_l1: shapes differ: (2, 3) and (3, 2)");
  expect_error([&] { smooth_l1(x, x, {.beta = -1}); }, "smooth_l1: beta is -1, should not be negative");
  Tensor whole = zeros({2}, DType::i64);
  expect_error([&] { smooth_l1(whole, whole); }, "smooth_l1: needs a floating dtype, got i64");
}

TEST(MseLoss, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("mse_loss, reduction ", int(reduction)),
                    .inputs = {{{3, 5}}, {{3, 5}}},
                    .fn = [=](const TensorList& in) { return mse_loss(in[0], in[1], reduction); },
                    .reference =
                        [=](const TensorList& in) {
                          return reduced(in, reduction, [](double x, double y) { return (x - y) * (x - y); });
                        },
                    .roundings = 16,
                    .large_inputs = {{{101, 203}}, {{101, 203}}}});
}

TEST(L1Loss, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("l1_loss, reduction ", int(reduction)),
                    .inputs = {{{3, 5}, 1.2, 3, true}, {{3, 5}, -0.1, 0.1}},  // no kinks
                    .fn = [=](const TensorList& in) { return l1_loss(in[0], in[1], reduction); },
                    .reference =
                        [=](const TensorList& in) {
                          return reduced(in, reduction, [](double x, double y) { return std::fabs(x - y); });
                        },
                    .roundings = 16});
}

TEST(PlainLosses, NameWhatDoesNotFit) {
  expect_error([] { mse_loss(zeros({2}), zeros({3})); }, {"mse_loss: shapes differ: (2,) and (3,)"});
  expect_error([] { l1_loss(zeros({2}), zeros({3})); }, {"l1_loss: shapes differ: (2,) and (3,)"});
}

TEST(BceLoss, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("bce_loss, reduction ", int(reduction)),
                    .inputs = {{{3, 5}, 0.1, 0.9}, {{3, 5}, 0, 1}},
                    .fn = [=](const TensorList& in) { return bce_loss(in[0], in[1], reduction); },
                    .reference =
                        [=](const TensorList& in) {
                          return reduced(in, reduction, [](double p, double t) {
                            return -(t * std::log(p) + (1 - t) * std::log(1 - p));
                          });
                        },
                    .roundings = 48});
}

TEST(BceLoss, IsNeverInfinite) {
  const Tensor p = Tensor::from<float>({0, 1, 0, 1}, {4}), t = Tensor::from<float>({0, 1, 1, 0}, {4});
  EXPECT_EQ(bce_loss(p, t, Reduction::none).to_vector<float>(), (std::vector<float>{0, 0, 100, 100}));
}

// (p - t) / max(p (1 - p), 1e-12), as PyTorch has it.
TEST(BceLoss, HasGradientsAtZeroAndOne) {
  const Tensor p = Tensor::from<double>({0, 1, 0, 1}, {4}).set_requires_grad(),
               t = Tensor::from<double>({0, 1, 1, 0}, {4});
  bce_loss(p, t, Reduction::sum).backward();
  const std::vector<double> got = p.grad().to_vector<double>(), want{0, 0, -1e12, 1e12};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1) << i;
}

TEST(KlDiv, PassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    for (bool log_target : {false, true})
      check_op(
          OpCase{.name = detail::join("kl_div, reduction ", int(reduction), ", log target ", log_target),
                 .inputs = {{{3, 5}, -3, -0.1}, {{3, 5}, log_target ? -2.0 : 0.1, log_target ? -0.1 : 0.9}},
                 .fn =
                     [=](const TensorList& in) {
                       return kl_div(in[0], in[1], {.log_target = log_target, .reduction = reduction});
                     },
                 .reference =
                     [=](const TensorList& in) {
                       return reduced(in, reduction, [=](double log_q, double target) {
                         const double p = log_target ? std::exp(target) : target;
                         return p * (std::log(p) - log_q);
                       });
                     },
                 .roundings = 48});
}

// Of distributions it is 0 for equal ones, and no term of a class that p lacks counts.
TEST(KlDiv, OfDistributions) {
  const Tensor p = Tensor::from<double>({0.5, 0.5, 0}, {3}), q = Tensor::from<double>({0.25, 0.5, 0.25}, {3});
  EXPECT_NEAR(kl_div(log(q), p, {.reduction = Reduction::sum}).item(), 0.5 * std::log(2.0), 1e-12);
  EXPECT_EQ(kl_div(log(q), q, {.reduction = Reduction::sum}).item(), 0);
}

}  // namespace
}  // namespace reprise
