// Rotary positions against complex numbers.
#include "reprise/autograd/ops/attention/rotary.h"

#include <complex>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

OpCase turned(RotaryPairs pairs) {
  return {.name = "rotary",
          .inputs = {{{2, 3, 4, 6}},
                     {.shape = {4, 3}, .requires_grad = false},
                     {.shape = {4, 3}, .requires_grad = false}},
          .fn = [=](const TensorList& in) { return rotary(in[0], in[1], in[2], {.pairs = pairs}); },
          .reference =
              [=](const TensorList& in) {
                const std::vector<double> x = in[0].to_vector<double>(), c = in[1].to_vector<double>(),
                                          s = in[2].to_vector<double>();
                std::vector<double> y(x.size());
                const bool side_by_side = pairs == RotaryPairs::adjacent;
                for (size_t row = 0; row < 24; ++row)
                  for (size_t i = 0; i < 3; ++i) {
                    const size_t at = row % 4 * 3 + i, a = row * 6 + (side_by_side ? 2 * i : i),
                                 b = a + (side_by_side ? 1 : 3);
                    const std::complex<double> z = std::complex(x[a], x[b]) * std::complex(c[at], s[at]);
                    y[a] = z.real();
                    y[b] = z.imag();
                  }
                return y;
              }};
}

TEST(Rotary, PassesEveryCheckOfAnOp) {
  check_op(turned(RotaryPairs::halves));
  check_op(turned(RotaryPairs::adjacent));
}

TEST(Rotary, KeepsTheTablesAlone) {
  const size_t before = allocator(Device()).stats().allocated;
  Tensor x = ones({8, 64, 64}).set_requires_grad();
  const Tensor cosines = ones({64, 32}), sines = zeros({64, 32});
  Tensor y = rotary(x * 1.0, cosines, sines);
  const size_t held = allocator(Device()).stats().allocated - before;
  const auto bytes = [](const Tensor& t) { return size_t(t.numel()) * 4; };
  EXPECT_LT(held, 2 * bytes(x) + 4 * bytes(cosines)) << "x and y, and not what was turned";
  sum(y).backward();
}

TEST(Rotary, SaysWhatDoesNotFit) {
  expect_error(
      [] {
        rotary(zeros({2, 5}), zeros({2, 2}), zeros({2, 2}));
      },
      {"rotary: needs an even number of channels, got (2, 5)"});
  expect_error([] { rotary(zeros({2, 4}), zeros({3, 2}), zeros({3, 2})); }, {"rotary", "(3, 2)", "(2, 2)"});
  expect_error(
      [] {
        rotary(zeros({2, 4}), zeros({2, 2}), zeros({2, 1}));
      },
      {"rotary: tables (2, 2) and (2, 1) do not fit (2, 4)"});
  expect_error(
      [] {
        rotary(zeros({2, 4}, DType::i64), zeros({2, 2}), zeros({2, 2}));
      },
      {"rotary", "floating"});
  expect_error(
      [] {
        rotary(zeros({2, 4}), zeros({2, 2}), zeros({2, 2}), {.out = DType::f64});
      },
      {"rotary: out is f64, which does not fit an input in f32"});
}

}  // namespace
}  // namespace reprise
