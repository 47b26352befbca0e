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

// 1000 x, whose gradient is larger by a ten-millionth each time.
struct Growing : autograd::Function<Growing> {
  static constexpr const char* name = "growing";
  static inline int calls = 0;
  Tensor forward(const Tensor& x) { return x * 1000.0; }
  TensorList backward(const TensorList& dy) { return {dy[0] * (1000 * (1 + 1e-7 * ++calls))}; }
};

TEST(Gradcheck, ComparesLargeGradientsByTheirOwnSize) {
  auto fn = [](const TensorList& in) { return TensorList{Growing::apply(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1})}, {.nondeterminism = 1e-6}));
  expect_error([&] { gradcheck(fn, {leaf({1})}, {.nondeterminism = 1e-8}); }, {"gradient 0", "again"});
}

TEST(Gradcheck, PassesWhatIsExactWithoutATolerance) {
  auto fn = [](const TensorList& in) { return TensorList{in[0] * 0.0}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, 2})}, {.tolerance = 0}));
  EXPECT_TRUE(gradgradcheck(fn, {leaf({1, 2})}, {.tolerance = 0}));
}

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

// 1e9 x, whose recorded gradient is the plain one to 9 digits.
struct Rounded : autograd::Function<Rounded> {
  static constexpr const char* name = "rounded";
  Tensor forward(const Tensor& x) { return x * 1e9; }
  TensorList backward(const TensorList& dy) {
    return {dy[0] * (autograd::grad_mode_enabled() ? 1e9 + 1 : 1e9)};
  }
};

TEST(Gradgradcheck, ToleratesTheRoundingOfLargeGradients) {
  auto fn = [](const TensorList& in) { return TensorList{Rounded::apply(in[0])}; };
  EXPECT_TRUE(gradgradcheck(fn, {leaf({1, 2, 3})}));
}

// x^2, but it takes the elements in memory for the elements of x.
struct Contiguous : autograd::Function<Contiguous> {
  static constexpr const char* name = "contiguous_only";
  Tensor forward(const Tensor& x) {
    save(x);
    std::vector<double> y(x.data<double>(), x.data<double>() + x.numel());
    for (double& value : y) value *= value;
    return Tensor::from(y, x.shape());
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(0) * 2.0}; }
};

// As it should be, but its backward reads dy in memory.
struct ContiguousGradient : autograd::Function<ContiguousGradient> {
  static constexpr const char* name = "contiguous_gradient";
  Tensor forward(const Tensor& x) { return x * 3.0; }
  TensorList backward(const TensorList& dy) {
    std::vector<double> dx(dy[0].data<double>(), dy[0].data<double>() + dy[0].numel());
    return {Tensor::from(dx, dy[0].shape()) * 3.0};
  }
};

TEST(Gradcheck, FindsAFunctionThatIsWrongForInputsOfAnotherLayout) {
  auto forward = [](const TensorList& in) { return TensorList{Contiguous::apply(in[0])}; };
  expect_error([&] { gradcheck(forward, {leaf({1, 2, 3})}); }, {"gradcheck", "output 0", "not contiguous"});
  EXPECT_TRUE(gradcheck(forward, {leaf({1, 2, 3})}, {.strided = false}));
  auto backward = [](const TensorList& in) { return TensorList{ContiguousGradient::apply(in[0])}; };
  expect_error(
      [&] {
        gradcheck(backward, {leaf({1, 2, 3})});
      },
      {"gradcheck", "gradient 0", "not contiguous"});
}

// What a function takes for granted of its input, or of its output gradient: `read` gives the elements as it finds them.
struct Assuming : autograd::Function<Assuming> {
  static constexpr const char* name = "assuming";
  using Read = std::vector<double> (*)(const Tensor&);
  Read read_dy = nullptr;
  Tensor forward(const Tensor& x, Read read_x, Read the_read_dy) {
    read_dy = the_read_dy;
    return Tensor::from(read_x(x), x.shape()) * 2.0;
  }
  TensorList backward(const TensorList& dy) { return {Tensor::from(read_dy(dy[0]), dy[0].shape()) * 2.0}; }
};

std::vector<double> read_right(const Tensor& x) { return x.to_vector<double>(); }
// Row by row with the stride of the last dimension: right with gaps, wrong where transposed or expanded.
std::vector<double> read_by_last_stride(const Tensor& x) {
  std::vector<double> values(size_t(x.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = x.data<double>()[int64_t(i) * x.strides().back()];
  return values;
}
// From the beginning of the storage, however the elements lie in it.
std::vector<double> read_from_storage(const Tensor& x) {
  if (!x.is_contiguous()) return read_right(x);
  const auto* first = static_cast<const double*>(x.storage()->data());
  return {first, first + x.numel()};
}
// As if no element were another's memory.
std::vector<double> read_until_expanded(const Tensor& x) {
  std::vector<double> values = read_right(x);
  for (int d = 0; d < x.rank(); ++d)
    if (x.strides()[d] == 0 && x.shape()[d] > 1) values.back() = 0;
  return values;
}

TEST(Gradcheck, FindsWhatIsWrongInOneLayoutAlone) {
  auto matrix = [] { return Tensor::from<double>({1, 2, 3, 4, 5, 6}, {2, 3}).set_requires_grad(); };
  auto check_both = [&](Assuming::Read read, const std::string& which, bool of_inputs) {
    auto in_backward = [&](const TensorList& in) {
      return TensorList{Assuming::apply(in[0], read_right, read)};
    };
    expect_error([&] { gradcheck(in_backward, {matrix()}); }, {"gradcheck", "gradient 0", which});
    EXPECT_TRUE(gradcheck(in_backward, {matrix()}, {.strided = false}));
    auto in_forward = [&](const TensorList& in) {
      return TensorList{Assuming::apply(in[0], read, read_right)};
    };
    if (of_inputs) expect_error([&] { gradcheck(in_forward, {matrix()}); }, {"gradcheck", "output 0", which});
  };
  check_both(read_by_last_stride, "transposed", true);
  check_both(read_from_storage, "begin within their storage", true);
  check_both(read_until_expanded, "expanded", false);
}

TEST(Gradcheck, TakesAllLayoutsOfRanksZeroAndEight) {
  auto fn = [](const TensorList& in) { return TensorList{sin(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {Tensor::from<double>({0.5}, {}).set_requires_grad()}));
  const Tensor deep = Tensor::from<double>({1, 2, 3, 4}, {1, 2, 1, 1, 1, 1, 2, 1}).set_requires_grad();
  EXPECT_TRUE(gradcheck(fn, {deep}));
  auto contiguous = [](const TensorList& in) { return TensorList{Contiguous::apply(in[0])}; };
  expect_error([&] { gradcheck(contiguous, {deep}); }, {"gradcheck", "output 0", "not contiguous"});
}

// x and x^2; a missing gradient of the second is taken for one.
struct TwoOutputs : autograd::Function<TwoOutputs> {
  static constexpr const char* name = "two_outputs";
  bool is_right = true;
  TensorList forward(const Tensor& x, bool right) {
    is_right = right;
    save(x);
    return {x * 1.0, square(x)};
  }
  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0);
    const Tensor first = dy[0].defined() ? dy[0] : zeros(x.shape(), x.dtype());
    const Tensor second = dy[1].defined() ? dy[1] : full(x.shape(), is_right ? 0 : 1, x.dtype());
    return {first + second * x * 2.0};
  }
  bool takes_undefined_gradients() const override { return true; }
};

TEST(Gradcheck, FindsWhatIsWrongWhereAGradientIsUndefined) {
  for (const bool right : {true, false}) {
    auto fn = [&](const TensorList& in) { return TwoOutputs::apply(in[0], right); };
    if (right)
      EXPECT_TRUE(gradcheck(fn, {leaf({1, 2, 3})}));
    else
      expect_error(
          [&] {
            gradcheck(fn, {leaf({1, 2, 3})});
          },
          {"gradcheck", "gradient 0", "without a gradient of output 1"});
    EXPECT_TRUE(gradcheck(fn, {leaf({1, 2, 3})}, {.undefined = false}));
  }
}

// Its gradient, or its value, is a little larger every time.
struct Drifting : autograd::Function<Drifting> {
  static constexpr const char* name = "drifting";
  double *forward_ = nullptr, *backward_ = nullptr;
  Tensor forward(const Tensor& x, double* in_forward, double* in_backward) {
    backward_ = in_backward;
    return x * 1.0 + (*in_forward += 1e-12);
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * (1 + (*backward_ += 1e-12))}; }
};

TEST(Gradcheck, FindsWhatDiffersFromRunToRun) {
  double drift = 0, none = 0;
  for (bool in_forward : {true, false}) {
    auto fn = [&](const TensorList& in) {
      none = -1e-12;
      return TensorList{Drifting::apply(in[0], in_forward ? &drift : &none, in_forward ? &none : &drift)};
    };
    drift = 0;
    expect_error(
        [&] {
          gradcheck(fn, {leaf({1, 2})});
        },
        {"gradcheck", in_forward ? "output 0" : "gradient 0", "again"});
    drift = 0;
    EXPECT_TRUE(gradcheck(fn, {leaf({1, 2})}, {.nondeterminism = 1e-9}));
    drift = 0;
    EXPECT_TRUE(gradcheck(fn, {leaf({1, 2})}, {.nondeterminism = -1}));
  }
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
