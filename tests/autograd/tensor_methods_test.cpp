// Tensor's methods: requires_grad, detach, grad, in-place writes, and that each forwards to its function.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;

Tensor leaf() { return Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).set_requires_grad(); }

TEST(RequiresGrad, IsSetOnLeavesAndSpreadsToResults) {
  Tensor x = leaf(), plain = ones({2, 3});
  EXPECT_TRUE(x.requires_grad() && x.is_leaf());
  Tensor y = x + plain;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_FALSE((plain + plain).requires_grad());
  x.set_requires_grad(false);
  EXPECT_FALSE((x + plain).requires_grad());
}

TEST(RequiresGrad, IsRefusedOnIntegersAndResults) {
  expect_error([] { arange(3).set_requires_grad(); }, {"set_requires_grad", "i64"});
  expect_error([] { (leaf() * 2.0).set_requires_grad(false); }, {"set_requires_grad", "leaf", "detach"});
}

TEST(Detach, SharesDataAndVersionOutsideTheGraph) {
  Tensor x = leaf(), y = x * 2.0, cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_EQ(cut.storage(), y.storage());
  cut.add_(ones({2, 3}));
  EXPECT_EQ(y.version(), 1u);
  (y.detach() * x).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), cut));
}

TEST(Grad, IsSetAndClearedAndMustFit) {
  Tensor x = leaf();
  EXPECT_FALSE(x.grad().defined());
  x.set_grad(ones({2, 3}));
  EXPECT_EQ(x.grad().sum().item(), 6);
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  expect_error([&] { x.set_grad(ones({3})); }, {"set_grad", "(2, 3)"});
  expect_error([&] { x.set_grad(ones({2, 3}, DType::f64)); }, {"set_grad", "f32"});
}

TEST(InPlace, WritesThroughViewsAndBumpsTheVersion) {
  Tensor x = zeros({2, 3});
  x.slice(1, 0, 1).fill_(2);
  EXPECT_EQ(x.version(), 1u);
  x.select(0, 1).copy_(Tensor::from<int64_t>({7, 8, 9}, {3}));  // casts
  x.add_(Tensor::from<float>({1, 2, 3}, {3}), 10);              // broadcasts
  x.mul_(0.5);
  EXPECT_EQ(x.version(), 4u);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{6, 10, 15, 8.5, 14, 19.5}));
  x.zero_();
  EXPECT_EQ(x.sum().item(), 0);
}

TEST(InPlace, IsRefusedOnLeavesThatRequireGradWhileRecording) {
  Tensor x = leaf();
  expect_error([&] { x.fill_(0); }, {"fill_", "requires grad"});
  expect_error([&] { x.copy_(ones({2, 3})); }, {"copy_"});
  expect_error([&] { x.add_(ones({2, 3})); }, {"add_"});
  expect_error([&] { x.mul_(2); }, {"mul_"});
  EXPECT_EQ(x.version(), 0u);
  NoGrad guard;
  EXPECT_NO_THROW(x.mul_(2));
}

TEST(InPlace, RefusesWhatDoesNotFitBeforeWriting) {
  Tensor x = zeros({2, 3});
  const Tensor whole = zeros({2, 3}, DType::i64);
  expect_error([&] { whole.add_(x); }, {"add_", "f32", "i64"});
  EXPECT_EQ(whole.version(), 0u);
  expect_error([&] { x.add_(zeros({4})); }, {"(4,)", "(2, 3)"});
  expect_error([&] { x.copy_(zeros({4})); }, {"(4,)", "(2, 3)"});
  EXPECT_EQ(x.version(), 0u);
}

TEST(Methods, ForwardToTheirFunctions) {
  Tensor x = leaf();
  EXPECT_TRUE(same_bits(x.reshape({3, 2}), reshape(x, {3, 2})));
  EXPECT_TRUE(same_bits(x.transpose(0, 1), transpose(x, 0, 1)));
  EXPECT_TRUE(same_bits(x.permute({1, 0}), permute(x, {1, 0})));
  EXPECT_TRUE(same_bits(x.slice(1, 0, 3, 2), slice(x, 1, 0, 3, 2)));
  EXPECT_TRUE(same_bits(x.select(0, 1), select(x, 0, 1)));
  EXPECT_TRUE(same_bits(x.unsqueeze(0).expand({2, 2, 3}), expand(x, {2, 2, 3})));
  EXPECT_TRUE(same_bits(x.unsqueeze(0).squeeze(0), x));
  EXPECT_TRUE(same_bits(x.sum(), sum(x)));
  EXPECT_TRUE(same_bits(x.sum({0}, true), sum(x, {0}, true)));
  EXPECT_TRUE(same_bits(x.mean(), mean(x)));
  EXPECT_TRUE(same_bits(x.mean({1}), mean(x, {1})));
  EXPECT_TRUE(same_bits(x.matmul(x.transpose(0, 1)), matmul(x, transpose(x, 0, 1))));
  EXPECT_EQ(x.to(DType::f64).dtype(), DType::f64);
  EXPECT_TRUE(x.to(DType::f32).is_same(x));
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_TRUE(x.transpose(0, 1).contiguous().is_contiguous());
  EXPECT_TRUE(x.to(Device::cpu()).is_same(x));
  expect_error([&] { x.to(Device::cuda(Device::cuda_count())); }, {"device", "cuda"});
}

TEST(Methods, OnAnUndefinedTensorAreErrors) {
  Tensor none;
  EXPECT_FALSE(none.defined());
  expect_error([&] { none.shape(); }, {"tensor"});
  expect_error([&] { none + ones({1}); }, {"tensor"});
  expect_error([&] { none.requires_grad(); }, {"tensor"});
}

TEST(InPlace, RefusesAnExpandedTarget) {
  expect_error([] { ones({1, 3}).expand({4, 3}).fill_(2); }, {"fill_", "expanded"});
}

TEST(InPlace, ReadsASourceThatLiesInTheTargetBeforeItWrites) {
  auto matrix = [] { return Tensor::from<double>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}); };
  using Doubles = std::vector<double>;
  Tensor x = matrix();
  x.slice(0, 1, 3).copy_(x.slice(0, 0, 2));
  EXPECT_EQ(x.to_vector<double>(), (Doubles{1, 2, 3, 1, 2, 3, 4, 5, 6}));
  x = matrix();
  x.copy_(x.transpose(0, 1));
  EXPECT_EQ(x.to_vector<double>(), (Doubles{1, 4, 7, 2, 5, 8, 3, 6, 9}));
  x = matrix();
  x.add_(x.transpose(0, 1));
  EXPECT_EQ(x.to_vector<double>(), (Doubles{2, 6, 10, 6, 10, 14, 10, 14, 18}));
  x = matrix();
  x.add_(x.select(0, 0), 10);  // one row, added to itself and the others
  EXPECT_EQ(x.to_vector<double>(), (Doubles{11, 22, 33, 14, 25, 36, 17, 28, 39}));
  x = matrix();
  x.add_(x);
  x.copy_(x);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{2, 4, 6, 8, 10, 12, 14, 16, 18}));
}

TEST(InPlace, RefusesTargetsWhoseElementsShareMemory) {
  Tensor line = ones({5});
  TensorView window = line.view();
  window.shape = {3, 3};
  window.strides = {1, 1};
  for (const Tensor& target : {line.alias(window), ones({1, 3}).expand({3, 3})}) {
    expect_error([&] { target.fill_(0); }, {"fill_", "share memory"});
    expect_error([&] { target.zero_(); }, {"share memory"});
    expect_error([&] { target.mul_(2); }, {"mul_", "share memory"});
    expect_error([&] { target.add_(ones({3, 3})); }, {"add_", "share memory"});
    expect_error([&] { target.copy_(ones({3, 3})); }, {"copy_", "share memory"});
  }
}

TEST(InPlace, NamesItselfWhereTheSourceDoesNotFit) {
  Tensor x = zeros({2});
  expect_error([&] { x.copy_(zeros({3})); }, {"copy_", "(3,)", "(2,)"});
  expect_error([&] { x.add_(zeros({2, 2})); }, {"add_", "(2, 2)", "(2,)"});
  expect_error([&] { x.copy_({}); }, {"copy_", "undefined"});
  expect_error([&] { x.add_(Tensor()); }, {"add_", "undefined"});
  expect_error([&] { x.set_data({}); }, {"set_data", "undefined"});
}

TEST(CreateGraph, GivesEachLeafAGradientOfItsOwn) {
  Tensor a = leaf(), b = leaf();
  (a + b).sum().backward({}, {}, true);
  a.grad().detach().mul_(3);
  EXPECT_EQ(a.grad().detach().sum().item(), 18);
  EXPECT_EQ(b.grad().detach().sum().item(), 6);
  a.set_grad({});
  b.set_grad({});
}

TEST(CreateGraph, MayTakeTheLeafItselfAsTheGradientTwice) {
  Tensor x = leaf();
  x.backward(x, {}, true);
  x.backward(x, {}, true);
  EXPECT_EQ(x.grad().detach().sum().item(), 42);
  x.set_grad({});
}

TEST(Hooks, ThatReturnAnotherShapeAreErrors) {
  Tensor x = leaf();
  x.register_hook([](const Tensor&) { return ones({3}); });
  expect_error([&] { x.sum().backward(); }, {"hook", "(3,)", "(2, 3)"});
}

}  // namespace
}  // namespace reprise
