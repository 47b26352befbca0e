// Gradcheck itself: it passes what is right and names what is wrong.
#include "reprise/autograd/gradcheck.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;

Tensor leaf(std::vector<double> values) {
  int64_t count = int64_t(values.size());
  return Tensor::from(values, {count}).set_requires_grad();
}

// x^2 whose backward forgets the factor 2 in one element.
struct Wrong : autograd::Function<Wrong> {
  static constexpr const char* name = "wrong";
  Tensor forward(const Tensor& x) {
    save(x);
    return square(x);
  }
  TensorList backward(const TensorList& dy) {
    return {dy[0] * saved(0) * Tensor::from<double>({2, 2, 1}, {3})};
  }
};

// Right once, but its backward hides its dependence on x.
struct WrongTwice : autograd::Function<WrongTwice> {
  static constexpr const char* name = "wrong_twice";
  Tensor forward(const Tensor& x) {
    save(x);
    return square(x);
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(0).detach() * 2.0}; }
};

// Right without create_graph, of the wrong sign with it.
struct TwoFaced : autograd::Function<TwoFaced> {
  static constexpr const char* name = "two_faced";
  Tensor forward(const Tensor& x) {
    save(x);
    return square(x);
  }
  TensorList backward(const TensorList& dy) {
    return {dy[0] * saved(0) * (autograd::grad_mode_enabled() ? -2.0 : 2.0)};
  }
};

TEST(Gradcheck, PassesWhatIsRightAndTouchesNoGradient) {
  Tensor x = leaf({1, 2, 3}), w = leaf({4, 5, 6});
  auto fn = [](const TensorList& in) { return TensorList{in[0] * in[1], exp(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {x, w}));
  EXPECT_TRUE(gradgradcheck(fn, {x, w}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(x.version(), 0u);
}

TEST(Gradcheck, NamesInputElementAnalyticAndNumeric) {
  auto fn = [](const TensorList& in) { return TensorList{in[0] + Wrong::apply(in[1])}; };
  expect_error(
      [&] {
        gradcheck(fn, {leaf({1, 1, 1}), leaf({1, 2, 3})});
      },
      {"gradcheck", "input 1", "element 2", "analytic", "numeric"});
}

TEST(Gradcheck, FindsAGradientThatIsMissing) {
  auto fn = [](const TensorList& in) { return TensorList{in[0] * in[0].detach()}; };
  expect_error([&] { gradcheck(fn, {leaf({2})}); }, {"input 0", "element 0"});
}

TEST(Gradgradcheck, FindsABackwardThatCannotBeDifferentiated) {
  auto fn = [](const TensorList& in) { return TensorList{WrongTwice::apply(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, 2})}));
  expect_error([&] { gradgradcheck(fn, {leaf({1, 2})}); }, {"gradcheck", "input 0"});
}

TEST(Gradgradcheck, FindsARecordedGradientThatIsNotThePlainOne) {
  auto fn = [](const TensorList& in) { return TensorList{TwoFaced::apply(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, 2})}));
  expect_error([&] { gradgradcheck(fn, {leaf({1, 2})}); }, {"gradgradcheck", "element 0", "create_graph"});
}

TEST(Gradcheck, TakesInputsThatNeedNoGradientOfAnyDtype) {
  auto fn = [](const TensorList& in) { return TensorList{gather(in[0], in[1])}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, 2}), Tensor::from<int64_t>({1, 1, 0}, {3})}));
}

TEST(Gradcheck, RunsUnderNoGradToo) {
  NoGrad guard;
  EXPECT_TRUE(gradcheck([](const TensorList& in) { return TensorList{sin(in[0])}; }, {leaf({1})}));
}

TEST(Gradcheck, RefusesWhatItCannotCheck) {
  auto same = [](const TensorList& in) { return TensorList{in[0] * 1.0}; };
  Tensor single = zeros({2}).set_requires_grad();
  expect_error([&] { gradcheck(same, {single}); }, {"gradcheck", "input 0", "f32", "f64"});
  expect_error([&] { gradcheck(same, {zeros({2}, DType::f64)}); }, {"gradcheck", "no input requires grad"});
  auto apart = [](const TensorList& in) { return TensorList{in[0].detach()}; };
  expect_error([&] { gradcheck(apart, {leaf({1})}); }, {"gradcheck", "no output depends"});
}

}  // namespace
}  // namespace reprise
