// Cross-entropy, against log-softmax and the target distribution.
#include <cmath>
#include <functional>
#include <utility>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/memory.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

Tensor targets_of(std::vector<int64_t> values) {
  int64_t count = int64_t(values.size());
  return Tensor::from(values, {count});
}

void check_options(const char* name, const CrossEntropyOptions& options) {
  Tensor targets = targets_of({4, 0, -100, 2, 2, 1});
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 301; ++i) many.push_back(i % 17 == 0 ? -100 : i * 7 % 97);
  check_op(OpCase{
      .name = name,
      .inputs = {{{6, 5}}, {.shape = {6}, .values = targets}},
      .fn = [=](const TensorList& in) { return cross_entropy(in[0], in[1], options); },
      .composite = [=](const TensorList& in) { return composite::cross_entropy(in[0], in[1], options); },
      .roundings = 16,
      .empty_inputs = {{{0, 5}}, {.shape = {0}, .values = Tensor::empty({0}, DType::i64)}},
      .large_inputs = {{{301, 97}}, {.shape = {301}, .values = targets_of(many)}}});
}

TEST(CrossEntropy, PassesEveryCheckOfAnOp) {
  check_options("mean", {});
  check_options("sum", {.reduction = Reduction::sum});
  check_options("none", {.reduction = Reduction::none});
  check_options("smoothed mean", {.label_smoothing = 0.1});
  check_options("smoothed, none", {.label_smoothing = 0.3, .reduction = Reduction::none});
}

void check_probabilities(const char* name, const CrossEntropyOptions& options) {
  check_op(OpCase{
      .name = name,
      .inputs = {{{2, 3, 5}}, {.shape = {2, 3, 5}, .low = 0, .high = 0.5, .requires_grad = false}},
      .fn = [=](const TensorList& in) { return cross_entropy(in[0], in[1], options); },
      .composite = [=](const TensorList& in) { return composite::cross_entropy(in[0], in[1], options); },
      .roundings = 32,  // a row's probabilities add up to more than 1
      .empty_inputs = {{{0, 5}}, {.shape = {0, 5}, .requires_grad = false}},
      .large_inputs = {{{301, 97}}, {.shape = {301, 97}, .low = 0, .high = 0.02, .requires_grad = false}}});
}

TEST(CrossEntropy, AgainstProbabilitiesPassesEveryCheckOfAnOp) {
  check_probabilities("mean", {});
  check_probabilities("sum", {.reduction = Reduction::sum});
  check_probabilities("none", {.reduction = Reduction::none});
  check_probabilities("smoothed mean", {.label_smoothing = 0.1});
  check_probabilities("smoothed, none", {.label_smoothing = 0.3, .reduction = Reduction::none});
}

TEST(CrossEntropy, AgainstOneHotRowsIsThatAgainstTheirClasses) {
  Generator generator(5);
  Tensor logits = randn({4, 7}, DType::f64, {}, &generator), targets = targets_of({3, 0, 6, 3});
  for (double smoothing : {0.0, 0.1}) {
    const CrossEntropyOptions options{.label_smoothing = smoothing};
    Tensor given = logits.detach().set_requires_grad(), same = logits.detach().set_requires_grad();
    Tensor loss = cross_entropy(given * 1.0, one_hot(targets, 7, DType::f64), options);
    Tensor want = cross_entropy(same * 1.0, targets, options);
    loss.backward(), want.backward();
    EXPECT_TRUE(testing::is_close(loss, want, 1e-15));
    EXPECT_TRUE(testing::is_close(given.grad(), same.grad(), 1e-15));
  }
}

TEST(CrossEntropy, OfLogitsGivenAwayPassesEveryCheckOfAnOp) {
  Tensor targets = targets_of({4, 0, -100, 2, 2, 1});
  check_op(OpCase{
      .name = "given away",
      .inputs = {{{6, 5}}, {.shape = {6}, .values = targets}},
      .fn = [](const TensorList& in) { return cross_entropy(in[0] * 2.0, in[1]); },
      .composite = [](const TensorList& in) { return composite::cross_entropy(in[0] * 2.0, in[1], {}); },
      .roundings = 16});
}

// What a call holds at its peak beyond what was held before it.
size_t bytes_taken(const std::function<Tensor()>& call) {
  Allocator& memory = allocator(testing::test_device());
  memory.reset_peaks();
  size_t before = memory.stats().held;
  Tensor loss = call();
  return memory.stats().peak_held - before;
}

TEST(CrossEntropy, PutsTheGradientInThePlaceOfLogitsThatNobodyElseHolds) {
  Tensor x = ones({64, 512}, DType::f32, testing::test_device()).set_requires_grad();
  Tensor targets = Tensor::zeros({64}, DType::i64, x.device());
  size_t logits_bytes = 64 * 512 * 4;
  auto given = [&] { return cross_entropy(x * 2.0, targets); };
  auto held = [&] {
    Tensor logits = x * 2.0;
    return cross_entropy(logits, targets);
  };
  EXPECT_LT(bytes_taken(given), 2 * logits_bytes);
  EXPECT_GE(bytes_taken(held), 2 * logits_bytes);
}

TEST(CrossEntropy, OfHalfLogitsKeepsThemAndEightBytesPerRow) {
  const size_t rows = 64, classes = 512, logits_bytes = rows * classes * 2, slack = 4096;
  for (DType dtype : {DType::bf16, DType::f16}) {
    Tensor x = ones({int64_t(rows), int64_t(classes)}, dtype, testing::test_device()).set_requires_grad();
    Tensor targets = Tensor::zeros({int64_t(rows)}, DType::i64, x.device());
    Allocator& memory = allocator(testing::test_device());
    const size_t before = memory.stats().held;
    Tensor loss = cross_entropy(x + 1.0, targets);
    const size_t held = memory.stats().held - before;
    EXPECT_GE(held, logits_bytes + 8 * rows);
    EXPECT_LE(held,
              logits_bytes + 8 * rows + slack);  // the loss, the factor of the mean, rounded up to blocks
    EXPECT_LT(bytes_taken([&] {
                loss.backward();
                return loss;
              }),
              slack)
        << "the gradient does not lie in the place of the logits";
    Tensor again = cross_entropy(x + 1.0, targets);
    x.set_grad({});
    again.backward({}, /*retain_graph=*/true);
    const Tensor first = x.grad().clone();
    x.set_grad({});
    again.backward();
    EXPECT_TRUE(testing::same_bits(x.grad(), first)) << "a graph that was retained lost its logits";
  }
}

// The gradient of a mean over so many numbers has a few bits in f16, where it is below the least normal number: a loss scale must be
// in it before it is rounded.
TEST(CrossEntropy, OfF16LogitsAgainstProbabilitiesRoundsTheGradientOnceWithTheLossScale) {
  const Shape shape{512, 1024};
  Generator generator(3);
  const Device device = testing::test_device();
  const Tensor logits = randn(shape, DType::f16, Device::cpu(), &generator).to(device);
  const Tensor targets = softmax(randn(shape, DType::f32, Device::cpu(), &generator).to(device));
  auto gradient = [&](DType computed_in, bool gives_away) {
    const Tensor x = logits.to(computed_in).detach().set_requires_grad();
    amp::Autocast scope(device, DType::f16);
    Tensor given = x * 1.0;
    Tensor loss = gives_away ? cross_entropy(std::move(given), targets) : cross_entropy(given, targets);
    (loss * 0x1p20).backward();
    return x.grad().to(DType::f32);
  };
  const Tensor want = gradient(DType::f32, false);
  for (bool gives_away : {false, true}) {
    const Tensor off = abs(gradient(DType::f16, gives_away) - want);
    EXPECT_LT(max(off / (abs(want) + 0.01)).item(), 1e-3) << "an f16 rounding is 5e-4";
  }
}

// The same where the loss has f16 too, outside of a scope: against f64.
TEST(CrossEntropy, OfF16LogitsAndLossAgainstProbabilitiesRoundsTheGradientOnce) {
  const Shape shape{512, 1024};
  Generator generator(3);
  const Device device = testing::test_device();
  const Tensor logits = randn(shape, DType::f16, Device::cpu(), &generator).to(device);
  const Tensor targets = softmax(randn(shape, DType::f32, Device::cpu(), &generator).to(device));
  for (Reduction reduction : {Reduction::mean, Reduction::none}) {
    auto gradient = [&](DType dtype) {
      const Tensor x = logits.to(dtype).detach().set_requires_grad();
      const CrossEntropyOptions options{.reduction = reduction};
      const Tensor loss = dtype == DType::f64 ? composite::cross_entropy(x, targets.to(dtype), options)
                                              : cross_entropy(x, targets, options);
      EXPECT_EQ(loss.dtype(), dtype);
      // Of rows as the mean gives them, but for what f16 does to their factors.
      const double factor = reduction == Reduction::mean ? 0x1p15 : 0.7001953125;
      loss.backward(full(loss.shape(), factor, dtype, device));
      return x.grad().to(DType::f64);
    };
    const Tensor want = gradient(DType::f64), off = abs(gradient(DType::f16) - want);
    const double least =
        reduction == Reduction::mean ? 0.01 : 1e-3;  // f32's error, and f16's subnormal numbers, are below it
    EXPECT_LT(max(off / (abs(want) + least)).item(), 0.5001 * 0x1p-10) << "half of an f16's last place";
  }
}

TEST(CrossEntropy, OfF16LogitsAgainstProbabilitiesKeepsTheLogits) {
  const size_t rows = 64, classes = 512, logits_bytes = rows * classes * 2, slack = 4096;
  const Device device = testing::test_device();
  const Tensor x = ones({int64_t(rows), int64_t(classes)}, DType::f16, device).set_requires_grad();
  const Tensor targets = full({int64_t(rows), int64_t(classes)}, 1.0 / classes, DType::f32, device);
  amp::Autocast scope(device, DType::f16);
  Allocator& memory = allocator(device);
  const size_t before = memory.stats().held;
  const Tensor loss = cross_entropy(x + 1.0, targets);
  EXPECT_LE(memory.stats().held - before, logits_bytes + slack);
  EXPECT_LT(bytes_taken([&] {
              loss.backward();
              return loss;
            }),
            slack)
      << "the gradient does not lie in the place of the logits";
}

TEST(CrossEntropy, MultipliesTheGradientByThatOfTheLossWhereItLies) {
  const size_t slack = 4096;
  for (DType dtype : {DType::f32, DType::f64})
    for (Reduction reduction : {Reduction::mean, Reduction::none}) {
      Tensor x = ones({64, 512}, dtype, testing::test_device()).set_requires_grad();
      Tensor targets = Tensor::zeros({64}, DType::i64, x.device());
      auto loss = [&] { return sum(cross_entropy(x + 1.0, targets, {.reduction = reduction})) * 3.0; };
      auto gradient = [&](const Tensor& of, bool retains) {
        x.set_grad({});
        of.backward({}, retains);
        return x.grad();
      };
      Tensor once = loss();
      EXPECT_LT(bytes_taken([&] { return gradient(once, false); }), slack);
      const Tensor want = x.grad().clone();
      Tensor twice = loss();
      const Tensor first = gradient(twice, true).clone();
      EXPECT_TRUE(testing::same_bits(first, want));
      EXPECT_TRUE(testing::same_bits(gradient(twice, false), want)) << "a graph that was retained was scaled";
      const double each = 3.0 / 512 / (reduction == Reduction::mean ? 64 : 1);
      EXPECT_NEAR(want.to_vector<double>()[1], each, 1e-6 * each);
    }
}

TEST(CrossEntropy, OfAViewHasTheBitsThatItHasWhereTheViewIsHeld) {
  Generator generator(5);
  const Tensor numbers = randn({6, 7}, DType::f64, testing::test_device(), &generator);
  const Tensor targets = targets_of({3, 0, -100, 6}).to(numbers.device());
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> cases[] = {
      {"every other column", [](const Tensor& x) { return slice(x, 1, 0, 7, 2).slice(0, 0, 4); }},
      {"a part of each row", [](const Tensor& x) { return slice(x, 1, 0, 7).slice(0, 1, 5); }},
      {"all but the last column", [](const Tensor& x) { return slice(x, 1, 0, 7 - 1).slice(0, 0, 4); }},
      {"one row, four times",
       [](const Tensor& x) {
         return expand(slice(x, 0, 2, 3), {4, 7});
       }},
      {"columns for rows", [](const Tensor& x) { return transpose(slice(x, 1, 0, 4), 0, 1); }}};
  for (const auto& [name, view] : cases)
    for (DType dtype : {DType::f64, DType::bf16}) {
      auto gradient = [&, &view = view](bool given) {
        Tensor x = numbers.to(dtype).clone().set_requires_grad();
        Tensor logits = view(x * 2.0);
        const Tensor labels = minimum(targets, full({}, double(logits.size(-1) - 1), DType::i64, x.device()));
        Tensor kept = given ? Tensor() : logits;
        cross_entropy(std::move(logits), labels).backward();
        return x.grad();
      };
      EXPECT_TRUE(testing::same_bits(gradient(true), gradient(false))) << name << ", " << dtype;
    }
}

TEST(CrossEntropy, OfHalfLogitsGoesBackFromBothFormsAlike) {
  Generator generator(5);
  const Tensor numbers = randn({4, 7}, DType::bf16, {}, &generator), targets = targets_of({3, 0, -100, 3});
  for (Reduction reduction : {Reduction::mean, Reduction::none}) {
    const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
    auto penalty = [&](DType dtype) {
      Tensor x = numbers.detach().to(dtype).set_requires_grad();
      Tensor dx = grad({sum(cross_entropy(x, targets, options))}, {x}, {}, {.create_graph = true})[0];
      return TensorList{dx.detach(), grad({sum(square(dx))}, {x})[0]};
    };
    const TensorList got = penalty(DType::bf16), want = penalty(DType::f64);
    for (size_t i = 0; i < got.size(); ++i)  // roundings of the loss, of dx and of its square's gradient
      EXPECT_TRUE(testing::is_close(got[i].to(DType::f64), want[i], 8 * testing::unit_roundoff(DType::bf16)));
  }
}

TEST(CrossEntropy, LeavesLogitsAloneThatSomebodyElseHolds) {
  Tensor x = ones({2, 3}, DType::f32, testing::test_device()).set_requires_grad();
  Tensor targets = targets_of({0, 2}).to(x.device());
  Tensor logits = x * 2.0, handle = logits;
  cross_entropy(std::move(logits), targets);
  EXPECT_EQ(handle.to_vector<double>(), std::vector<double>(6, 2.0));
  Tensor view = slice(handle, 0, 0, 2);
  cross_entropy(std::move(handle), targets);
  EXPECT_EQ(view.to_vector<double>(), std::vector<double>(6, 2.0));
  Tensor saved = exp(x);  // for its backward
  cross_entropy(std::move(saved), targets).backward();
  double loss_gradient = x.grad().to_vector<double>()[0];
  EXPECT_FLOAT_EQ(float(loss_gradient), float(std::exp(1.0) * (1.0 / 3 - 1) / 2));
}

TEST(CrossEntropy, LeavesHalfLogitsAloneThatSomebodyElseHolds) {
  Tensor x = ones({2, 3}, DType::bf16, testing::test_device()).set_requires_grad();
  Tensor logits = x * 2.0, targets = targets_of({0, 2}).to(x.device());
  cross_entropy(logits, targets).backward();
  EXPECT_EQ(logits.to(DType::f64).to_vector<double>(), std::vector<double>(6, 2.0));
  EXPECT_NE(x.grad().to(DType::f64).to_vector<double>()[0], 0);
}

TEST(CrossEntropy, OfUniformLogitsIsTheLogOfTheClassCount) {
  Tensor logits = zeros({2, 3, 7});
  Tensor targets = Tensor::from<int64_t>({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_FLOAT_EQ(float(cross_entropy(logits, targets).item()), std::log(7.0f));
  EXPECT_EQ(cross_entropy(logits, targets, {.reduction = Reduction::none}).shape(), (Shape{2, 3}));
}

TEST(CrossEntropy, IsZeroWithZeroGradientIfEveryRowIsIgnored) {
  Tensor logits = full({2, 3}, 1.5).set_requires_grad();
  Tensor loss = cross_entropy(logits, targets_of({-100, -100}));
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_EQ(logits.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  Tensor logits = zeros({2, 3});
  expect_error([&] { cross_entropy(logits, targets_of({0, 3})); }, {"cross_entropy", "3"});
  expect_error([&] { cross_entropy(logits, targets_of({-1, 0})); }, {"cross_entropy", "-1"});
  expect_error([&] { cross_entropy(logits, targets_of({0})); }, {"cross_entropy", "(2, 3)", "(1,)"});
  expect_error([&] { cross_entropy(logits, zeros({2}, DType::u8)); },
               "cross_entropy: targets must be i64, i32 or probabilities, got u8");
  expect_error([&] { cross_entropy(logits, zeros({2})); },
               "cross_entropy: logits (2, 3) and probabilities (2,) differ in shape");
  logits.set_requires_grad();
  expect_error(
      [&] {
        cross_entropy(logits, zeros({2, 3}).set_requires_grad());
      },
      "cross_entropy: gives probabilities no gradient; detach the targets");
}

}  // namespace
}  // namespace reprise
