// Powers of two tensors, of integers, and products over dimensions, against std::pow and loops; where PyTorch defines a gradient.
#include "reprise/autograd/ops/elementwise/powers.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;

TEST(PowOfTensors, PassesEveryCheckOfAnOp) {
  for (const Shape& shape : {Shape{3, 5}, Shape{5}, Shape{}}) {
    const bool row = shape.size() > 0, full = shape.size() == 2;
    check_op(OpCase{
        .name = detail::join("pow with exponents ", shape),
        .inputs = {{{3, 5}, 0.5, 2}, {shape, -2, 2}},
        .fn = [](const TensorList& in) { return pow(in[0], in[1]); },
        .reference =
            [&](const TensorList& in) {
              std::vector<double> a = in[0].to_vector<double>(), b = in[1].to_vector<double>();
              for (size_t i = 0; i < a.size(); ++i) a[i] = std::pow(a[i], b[full ? i : row ? i % 5 : 0]);
              return a;
            },
        .roundings = 48,
        .empty_inputs = {{{0, 5}}, {{5}, 0.5, 2}},
        .large_inputs = {{{300, 301}, 0.5, 2}, {{301}, 0.5, 2}},
    });
  }
}

// d/de = b^e log b, without the pow of the library: an oracle for the gradients.
TEST(PowOfTensors, HasTheGradientsOfExpAndLog) {
  const Tensor base = Tensor::from<double>({0.5, 1.5, 2, 3}, {4}).to(test_device()).set_requires_grad();
  const Tensor exponent = Tensor::from<double>({2, -1.5, 0.25, 3}, {4}).to(test_device()).set_requires_grad();
  const TensorList got = grad({sum(pow(base, exponent))}, {base, exponent});
  const auto b = base.to_vector<double>(), e = exponent.to_vector<double>();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got[0].to_vector<double>()[i], e[i] * std::exp((e[i] - 1) * std::log(b[i])), 1e-12);
    EXPECT_NEAR(got[1].to_vector<double>()[i], std::exp(e[i] * std::log(b[i])) * std::log(b[i]), 1e-12);
  }
}

// As PyTorch 2 answers.
TEST(PowOfTensors, DefinesValuesAndGradientsAtZeroAndBelow) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  struct Case {
    double base, exponent, value, of_base, of_exponent;
  };
  for (const Case& c : {Case{0, 0, 1, 0, 0},
                        {0, 2, 0, 0, 0},
                        {0, 1, 0, 1, 0},
                        {-2, 3, -8, 12, nan},
                        {-2, 0, 1, 0, nan},
                        {-2, 0.5, nan, nan, nan},
                        {0, -1, infinity, -infinity, -infinity},
                        {3, 0, 1, 0, std::log(3.0)}}) {
    const Tensor base = Tensor::from<double>({c.base}, {1}).to(test_device()).set_requires_grad();
    const Tensor exponent = Tensor::from<double>({c.exponent}, {1}).to(test_device()).set_requires_grad();
    const Tensor y = pow(base, exponent);
    const TensorList got = grad({y}, {base, exponent});
    const std::string what = detail::join(c.base, " ^ ", c.exponent);
    auto expect_is = [&](double value, double want) {
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(value)) << what << ": " << value;
      else if (std::isinf(want))
        EXPECT_EQ(value, want) << what;
      else
        EXPECT_NEAR(value, want, 1e-12) << what;
    };
    expect_is(y.item(), c.value);
    expect_is(got[0].item(), c.of_base);
    expect_is(got[1].item(), c.of_exponent);
  }
}

TEST(PowOfTensors, TakesANumberAsItsBase) {
  const Tensor x = Tensor::from<float>({-1, 0, 3}, {3}).to(test_device());
  EXPECT_EQ(pow(2.0, x).to_vector<float>(), (std::vector<float>{0.5, 1, 8}));
  EXPECT_EQ(pow(x, Tensor::from<double>({2}, {1}).to(test_device())).dtype(), DType::f64);
  const Tensor whole = Tensor::from<int64_t>({1}, {1}).to(test_device());
  EXPECT_EQ(pow(whole, x).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  expect_error([&] { pow(2.5, whole); }, "pow: 2.5 is not a whole number, and the tensor is i64");
  expect_error([&] { pow(x, Tensor()); }, "pow: tensor argument 1 is undefined");
}

// Against a loop in u64, which wraps as PyTorch's integers do.
TEST(PowOfIntegers, MultipliesAndWraps) {
  const std::vector<int64_t> values{0, 1, -1, 2, -3, 7, 1000003, std::numeric_limits<int64_t>::min()};
  const Tensor x = Tensor::from(values, {8}).to(test_device());
  for (int exponent : {0, 1, 2, 3, 5, 10, 63, 64}) {
    std::vector<int64_t> want;
    for (int64_t value : values) {
      uint64_t power = 1;
      for (int i = 0; i < exponent; ++i) power *= uint64_t(value);
      want.push_back(int64_t(power));
    }
    EXPECT_EQ(pow(x, exponent).to_vector<int64_t>(), want) << exponent;
  }
  const Tensor bytes = Tensor::from<uint8_t>({2, 3, 17, 255}, {4}).to(test_device());
  EXPECT_EQ(pow(bytes, 3).dtype(), DType::u8);
  EXPECT_EQ(pow(bytes, 3).to_vector<uint8_t>(), (std::vector<uint8_t>{8, 27, 4913 % 256, 255}));
  EXPECT_EQ(pow(bytes.to(DType::i32), 4).dtype(), DType::i32);
  EXPECT_EQ(pow(bytes.to(DType::i32), 4).to_vector<int32_t>(),
            (std::vector<int32_t>{16, 81, 83521, int32_t(uint32_t(255 * 255) * uint32_t(255 * 255))}));
  const amp::Autocast scope(test_device(), DType::bf16);
  EXPECT_EQ(pow(x, 2).dtype(), DType::i64);
}

// x^e modulo 2^64, or of a negative e what PyTorch 2.15 gives: of 1 and -1 their sign, else 0.
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0 && base != 1 && base != -1) return 0;
  uint64_t result = 1, square = uint64_t(base);
  for (uint64_t rest = exponent < 0 ? 0 - uint64_t(exponent) : uint64_t(exponent); rest; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return int64_t(result);
}

TEST(PowOfIntegers, ToIntegersIsExactModuloTheirRange) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> bases{0, 1, -1, 2, -2, 3, 7, 1000003, least, most},
      exponents{0, 1, 2, 3, 10, 63, 64, 65, -1, -2, -3, 1000001, most, least, least + 1, int64_t(1) << 62};
  const Tensor b = Tensor::from(bases, {10, 1}).to(test_device()),
               e = Tensor::from(exponents, {16}).to(test_device());
  std::vector<int64_t> want;
  for (int64_t base : bases)
    for (int64_t exponent : exponents) want.push_back(power(base, exponent));
  EXPECT_EQ(pow(b, e).to_vector<int64_t>(), want);
  const Tensor few = Tensor::from<int64_t>({5, 0, -3, 2}, {4}).to(test_device());
  EXPECT_EQ(pow(2, few).to_vector<int64_t>(), (std::vector<int64_t>{32, 1, 0, 4}));
  EXPECT_EQ(pow(few, few).to_vector<int64_t>(), (std::vector<int64_t>{3125, 1, 0, 4}));
  EXPECT_EQ(few.clone().pow_(few).to_vector<int64_t>(), (std::vector<int64_t>{3125, 1, 0, 4}));
  EXPECT_EQ(pow(few, zeros({0, 1}, DType::i64, test_device())).shape(), (Shape{0, 4}));
}

TEST(PowOfIntegers, MeetIntegersOfOtherWidths) {
  const Tensor bytes = Tensor::from<uint8_t>({2, 3, 17, 255}, {4}).to(test_device()),
               ints = Tensor::from<int32_t>({-2, 3, 17, 255}, {4}).to(test_device()), mask = ints > 0;
  EXPECT_EQ(pow(bytes, bytes).dtype(), DType::u8);
  EXPECT_EQ(pow(bytes, bytes).to_vector<uint8_t>(),
            (std::vector<uint8_t>{4, 27, 17, 255}));  // 17^16 is 1 mod 256
  EXPECT_EQ(pow(2, bytes).to_vector<uint8_t>(), (std::vector<uint8_t>{4, 8, 0, 0}));
  EXPECT_EQ(pow(ints, bytes).dtype(), DType::i32);
  EXPECT_EQ(pow(ints, bytes).to_vector<int32_t>()[0], 4);
  EXPECT_EQ(pow(ints, ints.to(DType::i64)).dtype(), DType::i64);
  EXPECT_EQ(pow(mask, ints).to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(pow(ints, mask).to_vector<int32_t>(), (std::vector<int32_t>{1, 3, 17, 255}));
  expect_error([&] { pow(mask, mask); }, "pow: needs a floating dtype, got bool");
  expect_error([&] { pow(256, bytes); }, "pow: 256 does not fit u8");
}

TEST(PowOfIntegers, RefusesWhatIntegersDoNotHave) {
  const Tensor x = ones({2}, DType::i64, test_device());
  expect_error([&] { pow(x, -1); }, "pow: i64 to the negative power -1; cast it to a floating dtype");
  expect_error([&] { pow(x, 0.5); }, "pow: 0.5 is not a whole number, and the tensor is i64");
  expect_error([&] { pow(x, NAN); }, "pow: nan is not a whole number");
  expect_error([&] { pow(x > 0, 2); }, "pow: needs a floating dtype, got bool");
}

TEST(Prod, PassesEveryCheckOfAnOp) {
  struct Case {
    Dims dims;
    bool keep;
  };
  for (const auto& [dims, keep] : {Case{{1}, false}, {{0, 2}, true}, {{}, false}, {{-1}, true}}) {
    check_op(OpCase{
        .name = detail::join("prod over ", dims),
        .inputs = {{{2, 3, 5}, 0.5, 1.5, true}},
        .fn = [dims = dims, keep = keep](const TensorList& in) { return prod(in[0], dims, keep); },
        .reference =
            [dims = dims](const TensorList& in) {
              const auto x = in[0].to_vector<double>();
              bool goes[3] = {dims.size() == 0, dims.size() == 0, dims.size() == 0};
              for (int64_t d : dims) goes[d < 0 ? d + 3 : d] = true;
              const int64_t sizes[3] = {goes[0] ? 1 : 2, goes[1] ? 1 : 3, goes[2] ? 1 : 5};
              std::vector<double> y(size_t(sizes[0] * sizes[1] * sizes[2]), 1);
              for (int64_t i = 0; i < 2; ++i)
                for (int64_t j = 0; j < 3; ++j)
                  for (int64_t k = 0; k < 5; ++k)
                    y[size_t(((goes[0] ? 0 : i) * sizes[1] + (goes[1] ? 0 : j)) * sizes[2] +
                             (goes[2] ? 0 : k))] *= x[size_t((i * 3 + j) * 5 + k)];
              return y;
            },
        .roundings = 96,
    });
  }
}

TEST(Prod, GivesAZerosGradientToItAlone) {
  const Tensor x = Tensor::from<float>({2, 0, 3, 5}, {4}).to(test_device()).set_requires_grad();
  EXPECT_EQ(grad({prod(x)}, {x})[0].to_vector<float>(), (std::vector<float>{0, 30, 0, 0}));
  const Tensor two = Tensor::from<float>({2, 0, 3, 0}, {4}).to(test_device()).set_requires_grad();
  EXPECT_EQ(grad({prod(two)}, {two})[0].to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

// As PyTorch, and as `sum` here.
TEST(Prod, OfIntegersIsTheirsInAScopeToo) {
  const amp::Autocast scope(test_device(), DType::bf16);
  for (DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor y = prod(Tensor::from<int64_t>({1, 1, 1}, {3}).to(dtype).to(test_device()));
    EXPECT_EQ(y.dtype(), DType::i64) << dtype;
    EXPECT_EQ(y.item(), 1) << dtype;
  }
}

TEST(Prod, OfIntegersAndMasksIsI64) {
  const std::vector<int64_t> values{3, 1, 200, 7, 250, 2};
  for (DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    SCOPED_TRACE(detail::join(dtype));
    const Tensor x = Tensor::from(values, {2, 3}).to(dtype).to(test_device());
    std::vector<int64_t> rows{1, 1};
    for (size_t i = 0; i < values.size(); ++i) rows[i / 3] *= dtype == DType::boolean ? 1 : values[i];
    EXPECT_EQ(prod(x).dtype(), DType::i64);
    EXPECT_EQ(prod(x).item(), double(rows[0] * rows[1]));
    EXPECT_EQ(prod(x, {1}, true).to_vector<int64_t>(), rows);
    EXPECT_EQ(prod(x, {1}, true).shape(), (Shape{2, 1}));
    EXPECT_EQ(prod(zeros({0}, dtype, test_device())).dtype(), DType::i64);
  }
  const Tensor mask = Tensor::from<uint8_t>({1, 0, 1}, {3}).to(DType::boolean).to(test_device());
  EXPECT_EQ(prod(mask).item(), 0);
}

TEST(Prod, OfNothingIsOneAndOfWholeNumbersExact) {
  EXPECT_EQ(prod(Tensor::zeros({0}, DType::f32, test_device())).item(), 1);
  EXPECT_EQ(prod(Tensor::zeros({2, 0}, DType::f32, test_device()), {1}).to_vector<float>(),
            (std::vector<float>{1, 1}));
  EXPECT_EQ(prod(Tensor::zeros({2, 0}, DType::f32, test_device()), {0}).shape(), Shape{0});
  EXPECT_EQ(prod(Tensor::from<int64_t>({7, 11, 13, 1000003}, {4}).to(test_device())).to_vector<int64_t>(),
            std::vector<int64_t>{int64_t(1001) * 1000003});
  // 200^3 overflows f16 on the way, and its whole does not.
  EXPECT_EQ(prod(Tensor::from<float>({200, 200, 200, 0.001f}, {4}).to(DType::f16).to(test_device())).dtype(),
            DType::f16);
  EXPECT_NEAR(
      prod(Tensor::from<float>({256, 256, 256, 0x1p-14f}, {4}).to(DType::f16).to(test_device())).item(), 1024,
      0);
  expect_error([&] { prod(ones({2, 3}), {2}); }, "prod");
  expect_error([&] { prod(ones({2, 3}), {1, 1}); }, "prod");
}

}  // namespace
}  // namespace reprise
