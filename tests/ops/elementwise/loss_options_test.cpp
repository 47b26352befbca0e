// Weights of binary cross-entropies, Huber's loss and the divergence of a batch, by loops.
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/losses.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;

using Doubles = std::vector<double>;

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const Doubles kOfClasses{0.5, 2, 4, 0.25, 1.5}, kOfRows{3, 0.5, 1};

Tensor of_classes(Device device = {}) { return Tensor::from(kOfClasses, {5}, device); }
Tensor of_rows(Device device = {}) { return Tensor::from(kOfRows, {3, 1}, device); }

/// The reduction of term(x, y, row, column) over (3, 5).
Doubles reduced(const TensorList& in, Reduction reduction, const auto& term) {
  Doubles x = in[0].to_vector<double>(), y = in[1].to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] = term(x[i], y[i], i / 5, i % 5);
  if (reduction == Reduction::none) return x;
  return {reduction == Reduction::sum ? sum : sum / double(x.size())};
}

TEST(BceWithLogits, OfWeightsPassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    for (bool has_weight : {false, true})
      check_op(
          OpCase{.name = detail::join("bce_with_logits, pos_weight, weight ", has_weight, ", reduction ",
                                      int(reduction)),
                 .inputs = {{{3, 5}, -4, 4}, {{3, 5}, 0, 1}},
                 .fn =
                     [=](const TensorList& in) {
                       return bce_with_logits(in[0], in[1],
                                              {.pos_weight = of_classes(in[0].device()),
                                               .weight = has_weight ? of_rows(in[0].device()) : Tensor(),
                                               .reduction = reduction});
                     },
                 .reference =
                     [=](const TensorList& in) {
                       return reduced(in, reduction, [=](double x, double t, size_t row, size_t column) {
                         return (has_weight ? kOfRows[row] : 1) *
                                (kOfClasses[column] * t * std::log1p(std::exp(-x)) +
                                 (1 - t) * std::log1p(std::exp(x)));
                       });
                     },
                 .roundings = 48});  // terms of up to 50 are rounded to a half type before they are added up
}

TEST(BceWithLogits, OfAWeightAloneIsThatTimesEachLoss) {
  manual_seed(1);
  const Tensor x = randn({3, 5}, DType::f64), t = rand({3, 5}, DType::f64);
  const Tensor want = bce_with_logits(x, t, Reduction::none) * of_rows();
  EXPECT_TRUE(
      is_close(bce_with_logits(x, t, {.weight = of_rows(), .reduction = Reduction::none}), want, 1e-14));
  EXPECT_TRUE(is_close(bce_with_logits(x, t, {.pos_weight = ones({5})}), bce_with_logits(x, t), 1e-14));
}

TEST(BceWithLogits, OfAPosWeightNeitherOverflowsNorCancels) {
  const Tensor x = Tensor::from<float>({200, -200, 20, -20}, {4}), t = Tensor::from<float>({0, 1, 1, 0}, {4});
  const Doubles got =
      bce_with_logits(x, t, {.pos_weight = full({1}, 3), .reduction = Reduction::none}).to_vector<double>();
  const double small = std::log1p(std::exp(-20.0)), want[] = {200, 600, 3 * small, small};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;  // roundings of f32
}

TEST(BceLoss, OfAWeightPassesEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("bce_loss, weight, reduction ", int(reduction)),
                    .inputs = {{{3, 5}, 0.1, 0.9}, {{3, 5}, 0, 1}},
                    .fn =
                        [=](const TensorList& in) {
                          return bce_loss(in[0], in[1],
                                          {.weight = of_classes(in[0].device()), .reduction = reduction});
                        },
                    .reference =
                        [=](const TensorList& in) {
                          return reduced(in, reduction, [=](double p, double t, size_t, size_t column) {
                            return -kOfClasses[column] * (t * std::log(p) + (1 - t) * std::log(1 - p));
                          });
                        },
                    .roundings = 64});
}

TEST(HuberLoss, PassesEveryCheckOfAnOp) {
  for (double delta : {1.0, 0.5, 2.0})
    for (Reduction reduction : kReductions)
      check_op(OpCase{
          .name = detail::join("huber_loss, delta ", delta, ", reduction ", int(reduction)),
          .inputs = {{{3, 5}, 1.2, 1.8, true}, {{3, 5}, -0.1, 0.1}},  // no kinks: |x - y| is 1.1 to 1.9
          .fn =
              [=](const TensorList& in) {
                return huber_loss(in[0], in[1], {.delta = delta, .reduction = reduction});
              },
          .reference =
              [=](const TensorList& in) {
                return reduced(in, reduction, [=](double x, double y, size_t, size_t) {
                  const double d = std::fabs(x - y);
                  return d < delta ? d * d / 2 : delta * (d - delta / 2);
                });
              },
          .roundings = 16});
}

TEST(KlDiv, OfABatchIsTheMeanOverItsRows) {
  for (bool log_target : {false, true})
    check_op(
        OpCase{.name = detail::join("kl_div, batch_mean, log target ", log_target),
               .inputs = {{{3, 5}, -3, -0.1}, {{3, 5}, log_target ? -2.0 : 0.1, log_target ? -0.1 : 0.9}},
               .fn =
                   [=](const TensorList& in) {
                     return kl_div(in[0], in[1], {.log_target = log_target, .batch_mean = true});
                   },
               .reference =
                   [=](const TensorList& in) {
                     const Doubles sum =
                         reduced(in, Reduction::sum, [=](double log_q, double target, size_t, size_t) {
                           const double p = log_target ? std::exp(target) : target;
                           return p * (std::log(p) - log_q);
                         });
                     return Doubles{sum[0] / 3};
                   },
               .roundings = 48});
}

TEST(LossOptions, NameWhatDoesNotFit) {
  const Tensor x = zeros({3, 5});
  expect_error(
      [&] { bce_with_logits(x, x, {.pos_weight = ones({3})}); },
      {"bce_with_logits: pos_weight is f32 (3,), should be of a floating dtype and broadcast to (3, 5)"});
  expect_error(
      [&] {
        bce_with_logits(x, x, {.weight = ones({2, 3, 5})});
      },
      {"bce_with_logits: weight is f32 (2, 3, 5)"});
  expect_error([&] { bce_loss(x, x, {.weight = ones({5}, DType::i64)}); }, {"bce_loss: weight is i64 (5,)"});
  expect_error([&] { huber_loss(x, x, {.delta = 0}); }, {"huber_loss: delta is 0, should be above 0"});
  expect_error([&] { huber_loss(x, zeros({3})); }, {"huber_loss: shapes differ: (3, 5) and (3,)"});
  expect_error([&] { kl_div(scalar(0), scalar(1), {.batch_mean = true}); },
               {"kl_div: batch_mean needs a first dimension, got ()"});
  expect_error([&] { kl_div(x, x, {.reduction = Reduction::sum, .batch_mean = true}); },
               {"kl_div: batch_mean is a reduction of its own"});
}

// PyTorch refuses labels of integers and booleans too.
TEST(LossOptions, SayHowLabelsAreCast) {
  const Tensor x = zeros({3}), labels = zeros({3}, DType::i64);
  for (const Tensor& target : {labels, labels == 0})
    expect_error([&] { bce_with_logits(x, target); },
                 {detail::join("bce_with_logits: the target is ", target.dtype(), " (3,), should be f32"),
                  "cast(target, DType::f32)"});
}

}  // namespace
}  // namespace reprise
