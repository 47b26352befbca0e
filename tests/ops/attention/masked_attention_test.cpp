// Attention under masks, against loops in f64 and against attention without one.
#include "reprise/autograd/ops/attention/masked_attention.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;
using testing::OpInput;

constexpr int64_t B = 2, H = 4, KV = 2, T = 3, S = 5, D = 4;

// `add(b, h, t, s)`: what the mask adds to a score.
template <class Add>
std::vector<double> by_loops(const TensorList& in, const Add& add) {
  const std::vector<double> q = in[0].to_vector<double>(), k = in[1].to_vector<double>(),
                            v = in[2].to_vector<double>();
  std::vector<double> y;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < T; ++t) {
        const int64_t of_q = ((b * H + h) * T + t) * D, of_kv = (b * KV + h / (H / KV)) * S * D;
        double total = 0, weights[S];
        for (int64_t s = 0; s < S; ++s) {
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += q[size_t(of_q + d)] * k[size_t(of_kv + s * D + d)];
          total += weights[s] = std::exp(score / std::sqrt(double(D)) + add(b, h, t, s));
        }
        for (int64_t d = 0; d < D; ++d) {
          double sum = 0;
          for (int64_t s = 0; s < S; ++s) sum += weights[s] * v[size_t(of_kv + s * D + d)];
          y.push_back(total > 0 ? sum / total : 0);
        }
      }
  return y;
}

// In sample 1, query 2 sees nothing; elsewhere some pattern.
bool is_seen(int64_t b, int64_t t, int64_t s) { return !(b == 1 && t == 2) && (b + t + s) % 3 != 0; }

Tensor pattern() {
  std::vector<uint8_t> bits;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t s = 0; s < S; ++s) bits.push_back(is_seen(b, t, s));
  return Tensor::from(bits, {B, 1, T, S}).to(DType::boolean);
}

const std::vector<OpInput> inputs{{{B, H, T, D}}, {{B, KV, S, D}}, {{B, KV, S, D}}};

TEST(MaskedAttention, PassesEveryCheckOfAnOpWithAMaskOfBits) {
  check_op(OpCase{.name = "masked_attention",
                  .inputs = inputs,
                  .fn =
                      [](const TensorList& in) {
                        return masked_attention(in[0], in[1], in[2], pattern().to(in[0].device()));
                      },
                  .reference =
                      [](const TensorList& in) {
                        return by_loops(in, [](int64_t b, int64_t, int64_t t, int64_t s) {
                          return is_seen(b, t, s) ? 0 : -std::numeric_limits<double>::infinity();
                        });
                      },
                  .roundings = 24});
}

TEST(MaskedAttention, PassesEveryCheckOfAnOpWithABiasThatIsTrained) {
  std::vector<OpInput> with_bias = inputs;
  with_bias.push_back({.shape = {H, T, S}});
  check_op(OpCase{.name = "masked_attention",
                  .inputs = with_bias,
                  .fn = [](const TensorList& in) { return masked_attention(in[0], in[1], in[2], in[3]); },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> bias = in[3].to_vector<double>();
                        return by_loops(in, [&](int64_t, int64_t h, int64_t t, int64_t s) {
                          return bias[size_t((h * T + t) * S + s)];
                        });
                      },
                  .roundings = 24});
}

TEST(MaskedAttention, GivesAQueryThatSeesNothingNoGradient) {
  const double inf = std::numeric_limits<double>::infinity();
  for (bool bits : {true, false}) {
    Tensor q = randn({1, 1, 2, 4}).set_requires_grad(), k = randn({1, 1, 3, 4}).set_requires_grad(),
           v = randn({1, 1, 3, 4});
    Tensor mask = Tensor::from<double>({0, 0, 0, 1, 1, 1}, {2, 3});
    mask = bits ? mask.to(DType::boolean) : where(mask > 0, zeros({2, 3}), full({2, 3}, -inf));
    const Tensor y = masked_attention(q, k, v, mask);
    EXPECT_EQ(y.select(2, 0).to_vector<double>(), std::vector<double>(4, 0));
    square(y).sum().backward();
    EXPECT_EQ(q.grad().select(2, 0).to_vector<double>(), std::vector<double>(4, 0));
    EXPECT_TRUE(all(isfinite(k.grad())));
    EXPECT_TRUE(any(q.grad().select(2, 1) != 0));
  }
}

TEST(MaskedAttention, WithACausalMaskIsAttention) {
  const Tensor q = randn({2, 4, 7, 8}), k = randn({2, 2, 7, 8}), v = randn({2, 2, 7, 8});
  const Tensor causal = tril(ones({7, 7})) > 0;
  EXPECT_TRUE(is_close(masked_attention(q, k, v, causal), attention(q, k, v), 1e-5));
  EXPECT_TRUE(
      is_close(masked_attention(q, k, v, causal, {.scale = 0.1}), attention(q, k, v, {.scale = 0.1}), 1e-5));
}

TEST(MaskedAttention, SaysWhatDoesNotFit) {
  const Tensor q = zeros({2, 4, 3, 8}), k = zeros({2, 4, 5, 8}), mask = ones({3, 5}, DType::boolean);
  expect_error(
      [&] {
        masked_attention(q, k, k, ones({5, 3}, DType::boolean));
      },
      {"masked_attention", "(5, 3)"});
  expect_error(
      [&] {
        masked_attention(q, k, k, ones({3, 5}, DType::i64));
      },
      {"masked_attention: the mask must be bool or floating, got i64"});
  expect_error(
      [&] {
        masked_attention(q, zeros({2, 3, 5, 8}), zeros({2, 3, 5, 8}), mask);
      },
      {"masked_attention: q (2, 4, 3, 8)"});
  expect_error([&] { masked_attention(q, k, zeros({2, 4, 5, 4}), mask); }, {"masked_attention: needs q"});
  expect_error([&] { masked_attention(q, k, k, Tensor()); }, {"masked_attention", "undefined"});
  for (const double dropout : {-0.5, 1.0})
    expect_error([&] { masked_attention(q, k, k, mask, {.dropout = dropout}); },
                 {"dropout must be in [0, 1)"});
}

}  // namespace
}  // namespace reprise
