// cross_entropy and nll_loss whose classes have weights, against loops by PyTorch's formulas.
#include <cmath>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;

using Doubles = std::vector<double>;

const std::vector<int64_t> kTargets{4, 0, -100, 2, 2, 1};
constexpr double kWeights[] = {0.5, 2, 0.25, 7, 1.5};

Tensor targets() { return Tensor::from(kTargets, {6}); }

Tensor weights(DType dtype = DType::f64) {
  return Tensor::from(Doubles(std::begin(kWeights), std::end(kWeights)), {5}).to(dtype);
}

/// With the weights where the logits are.
CrossEntropyOptions beside(const Tensor& logits, CrossEntropyOptions options) {
  options.weight = options.weight.to(logits.device());
  return options;
}

Doubles log_softmax_of(const Tensor& logits) {
  Doubles z = logits.to_vector<double>();
  for (size_t row = 0; row < z.size() / 5; ++row) {
    double total = 0;
    for (size_t c = 0; c < 5; ++c) total += std::exp(z[row * 5 + c]);
    for (size_t c = 0; c < 5; ++c) z[row * 5 + c] -= std::log(total);
  }
  return z;
}

Doubles reduced(const Doubles& losses, double divisor, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  double sum = 0;
  for (double loss : losses) sum += loss;
  return {reduction == Reduction::sum ? sum : sum / divisor};
}

// (1 - s) w[t] nll + s / V sum of w[c] (-log p[c]), by the sum of w[t].
Doubles by_loops(const Doubles& log_p, const CrossEntropyOptions& options) {
  Doubles losses;
  double divisor = 0;
  for (size_t row = 0; row < kTargets.size(); ++row) {
    losses.push_back(0);
    if (kTargets[row] == options.ignore_index) continue;
    const auto target = size_t(kTargets[row]);
    divisor += kWeights[target];
    losses.back() -= (1 - options.label_smoothing) * kWeights[target] * log_p[row * 5 + target];
    for (size_t c = 0; c < 5; ++c)
      losses.back() -= options.label_smoothing / 5 * kWeights[c] * log_p[row * 5 + c];
  }
  return reduced(losses, divisor, options.reduction);
}

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

TEST(ClassWeights, OfCrossEntropyPassEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.3}) {
      const CrossEntropyOptions options{
          .label_smoothing = smoothing, .reduction = reduction, .weight = weights()};
      check_op(OpCase{
          .name =
              detail::join("weighted cross_entropy, reduction ", int(reduction), ", smoothing ", smoothing),
          .inputs = {{{6, 5}}, {.shape = {6}, .values = targets()}},
          .fn = [=](const TensorList& in) { return cross_entropy(in[0], in[1], beside(in[0], options)); },
          .reference = [=](const TensorList& in) { return by_loops(log_softmax_of(in[0]), options); },
          .roundings = 16});
    }
}

TEST(ClassWeights, OfProbabilitiesPassEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.3}) {
      const CrossEntropyOptions options{
          .label_smoothing = smoothing, .reduction = reduction, .weight = weights()};
      auto loops = [=](const TensorList& in) {
        const Doubles log_p = log_softmax_of(in[0]), q = in[1].to_vector<double>();
        Doubles losses;
        for (size_t row = 0; row < 6; ++row) {
          losses.push_back(0);
          for (size_t c = 0; c < 5; ++c)
            losses.back() -=
                kWeights[c] * (q[row * 5 + c] * (1 - smoothing) + smoothing / 5) * log_p[row * 5 + c];
        }
        return reduced(losses, 6, reduction);
      };
      check_op(OpCase{
          .name =
              detail::join("weighted probabilities, reduction ", int(reduction), ", smoothing ", smoothing),
          .inputs = {{{2, 3, 5}}, {.shape = {2, 3, 5}, .low = 0, .high = 0.5, .requires_grad = false}},
          .fn = [=](const TensorList& in) { return cross_entropy(in[0], in[1], beside(in[0], options)); },
          .reference = loops,
          .roundings = 32});  // a row's probabilities add up to more than 1
    }
}

TEST(ClassWeights, OfNllLossPassEveryCheckOfAnOp) {
  for (Reduction reduction : kReductions)
    check_op(OpCase{.name = detail::join("weighted nll_loss, reduction ", int(reduction)),
                    .inputs = {{{6, 5}}, {.shape = {6}, .values = targets()}},
                    .fn =
                        [=](const TensorList& in) {
                          return nll_loss(in[0], in[1],
                                          {.reduction = reduction, .weight = weights().to(in[0].device())});
                        },
                    .reference =
                        [=](const TensorList& in) {
                          return by_loops(in[0].to_vector<double>(), {.reduction = reduction});
                        },
                    .roundings = 16});
}

TEST(ClassWeights, OfOneAreNone) {
  manual_seed(2);
  const Tensor logits = randn({6, 5}, DType::f64), q = softmax(randn({6, 5}, DType::f64));
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.1})
      for (const Tensor& target : {targets(), q}) {
        CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = reduction};
        const Tensor plain = cross_entropy(logits, target, options);
        options.weight = ones({5});
        EXPECT_TRUE(is_close(cross_entropy(logits, target, options), plain, 1e-14));
        EXPECT_TRUE(is_close(composite::cross_entropy(logits, target, options), plain, 1e-14));
      }
}

// The composite multiplies whole distributions.
TEST(ClassWeights, OfTheCompositeAreTheSame) {
  manual_seed(3);
  const Tensor logits = randn({6, 5}, DType::f64), q = softmax(randn({6, 5}, DType::f64));
  for (Reduction reduction : kReductions)
    for (const Tensor& target : {targets(), q}) {
      const CrossEntropyOptions options{
          .ignore_index = 2, .label_smoothing = 0.1, .reduction = reduction, .weight = weights()};
      const Tensor safe = is_floating(target.dtype()) ? target : where(target < 0, target * 0, target);
      EXPECT_TRUE(is_close(composite::cross_entropy(logits, safe, options),
                           cross_entropy(logits, safe, options), 1e-14));
    }
}

// As without weights: a loss in f32 under autocast and where `out` asks for it, else in the logits' dtype.
TEST(ClassWeights, LeaveTheDtypeOfTheLoss) {
  const Tensor logits = randn({6, 5}).to(DType::bf16), weight = weights(DType::f32);
  EXPECT_EQ(cross_entropy(logits, targets(), {.weight = weight}).dtype(), DType::bf16);
  EXPECT_EQ(cross_entropy(logits, targets(), {.out = DType::f32, .weight = weight}).dtype(), DType::f32);
  EXPECT_EQ(nll_loss(logits, targets(), {.weight = weight}).dtype(), DType::bf16);
  const amp::Autocast scope(Device::cpu(), DType::bf16);
  const Tensor loss = cross_entropy(logits, targets(), {.weight = weight});
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_TRUE(is_close(loss, cross_entropy(logits.to(DType::f32), targets(), {.weight = weight}), 1e-6));
  EXPECT_EQ(nll_loss(logits, targets(), {.weight = weight}).dtype(), DType::f32);
}

// A loss scale is in the gradient before it is rounded: without it 1e-6 would have the 3% of a rounding of f16 there.
TEST(ClassWeights, GiveHalfLogitsAGradientThatIsRoundedOnce) {
  const Tensor logits = randn({6, 5}).to(DType::f16), weight = full({5}, 1e-6);
  const CrossEntropyOptions options{.reduction = Reduction::sum, .out = DType::f32, .weight = weight};
  Tensor half = logits.detach().set_requires_grad(), wide = logits.to(DType::f32).set_requires_grad();
  (cross_entropy(half, targets(), options) * 1048576.0).backward();
  (cross_entropy(wide, targets(), options) * 1048576.0).backward();
  EXPECT_TRUE(is_close(half.grad().to(DType::f32), wide.grad(), 1e-3));  // an f16 rounding is 5e-4
}

TEST(ClassWeights, AreTheSameUnderRecompute) {
  Tensor x = randn({6, 5}).set_requires_grad();
  auto loss = [](const Tensor& z) { return cross_entropy(z, targets(), {.weight = weights(DType::f32)}); };
  loss(x * 2.0).backward();
  const Tensor plain = x.grad();
  x.set_grad({});
  checkpoint([&](const Tensor& z) { return loss(z * 2.0); }, x).backward();
  EXPECT_TRUE(testing::same_bits(x.grad(), plain));
}

TEST(ClassWeights, OfNothingThatCountsGiveZero) {
  Tensor x = randn({2, 5}).set_requires_grad();
  Tensor loss = cross_entropy(x, full({2}, -100, DType::i64), {.weight = weights()});
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_TRUE(testing::same_bits(x.grad(), zeros({2, 5})));
  EXPECT_EQ(nll_loss(x, full({2}, 1, DType::i64), {.weight = zeros({5})}).item(), 0);
}

TEST(ClassWeights, LeaveOutWhatALogitOfMinusInfinityHides) {
  const Tensor x = Tensor::from<float>({0, 0, 0, -INFINITY, 0}, {1, 5});
  const Tensor weight = Tensor::from<float>({1, 1, 1, 0, 1}, {5});
  const Tensor target = full({1}, 1, DType::i64);
  const double want = std::log(4) * (0.5 + 0.5 * 4 / 5);
  EXPECT_NEAR(cross_entropy(x, target, {.label_smoothing = 0.5, .weight = weight}).item(), want, 1e-6);
}

TEST(ClassWeights, NameWhatDoesNotFit) {
  const Tensor x = zeros({6, 5});
  for (const Tensor& weight : {ones({4}), ones({5, 1}), ones({5}, DType::i64)}) {
    const std::string form = detail::join("weight is ", weight.dtype(), ' ', weight.shape());
    expect_error([&] { cross_entropy(x, targets(), {.weight = weight}); },
                 {"cross_entropy: " + form, "(5,)"});
    expect_error([&] { nll_loss(x, targets(), {.weight = weight}); }, {"nll_loss: " + form, "(6, 5)"});
  }
  Tensor trained = ones({5}).set_requires_grad();
  expect_error([&] { cross_entropy(x, targets(), {.weight = trained}); }, {"cross_entropy", "no gradient"});
  const Tensor weight = ones({5});
  expect_error([&] { cross_entropy(x, zeros({3}, DType::i64), {.weight = weight}); },
               {"cross_entropy: logits (6, 5) need targets (6,), got (3,)"});
  expect_error(
      [&] {
        cross_entropy(x, zeros({6, 4}), {.weight = weight});
      },
      {"cross_entropy: logits (6, 5) and probabilities (6, 4)"});
  expect_error([&] { cross_entropy(x, targets(), {.label_smoothing = 2, .weight = weight}); },
               {"cross_entropy: label_smoothing is 2"});
}

// 0 times infinity, as PyTorch has it (ATen/native/LossNLL.cpp: -input * weight); its gradient is finite there, too.
TEST(ClassWeights, ALossOfInfinityThatWeighsNothingIsNaN) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor weight = Tensor::from(Doubles{0, 1}, {2}), targets = Tensor::from<int64_t>({0, 1}, {2});
  for (Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
    const Tensor log_p = Tensor::from(Doubles{-inf, 0, -1, -2}, {2, 2}).set_requires_grad();
    const Tensor loss = nll_loss(log_p, targets, {.reduction = reduction, .weight = weight});
    EXPECT_TRUE(std::isnan(loss.to_vector<double>()[0])) << int(reduction);
    sum(loss).backward();
    EXPECT_EQ(log_p.grad().to_vector<double>(), (Doubles{0, 0, 0, -1}));
  }
  const Tensor logits = Tensor::from(Doubles{-inf, 0, 0, 0}, {2, 2});
  EXPECT_TRUE(std::isnan(cross_entropy(logits, targets, {.weight = weight}).item()));
}

}  // namespace
}  // namespace reprise
