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

TEST(Rotary, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "rotary",
                  .inputs = {{{2, 3, 4, 6}},
                             {.shape = {4, 3}, .requires_grad = false},
                             {.shape = {4, 3}, .requires_grad = false}},
                  .fn = [](const TensorList& in) { return rotary(in[0], in[1], in[2]); },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>(),
                                                  c = in[1].to_vector<double>(),
                                                  s = in[2].to_vector<double>();
                        std::vector<double> y(x.size());
                        for (size_t row = 0; row < 24; ++row)
                          for (size_t i = 0; i < 3; ++i) {
                            const size_t at = row % 4 * 3 + i;
                            const std::complex<double> turned =
                                std::complex(x[row * 6 + i], x[row * 6 + i + 3]) * std::complex(c[at], s[at]);
                            y[row * 6 + i] = turned.real();
                            y[row * 6 + i + 3] = turned.imag();
                          }
                        return y;
                      }});
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
}

}  // namespace
}  // namespace reprise
