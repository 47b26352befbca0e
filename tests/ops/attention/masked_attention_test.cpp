// Attention under masks, against loops in f64 and against attention without one.
#include "reprise/autograd/ops/attention/masked_attention.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/core/memory.h"
#include "reprise/kernels/elementwise/dropout.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;
using testing::OpInput;
using testing::same_bits;
using testing::test_device;

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

// The same from matmul and softmax over the whole matrix of scores; some key is seen by each query. `keep` is what dropout
// multiplies by.
Tensor by_whole_matrix(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added,
                       const Tensor& keep = {}) {
  auto for_heads = [&](const Tensor& x) {
    return concat({slice(x, 1, 0, 1), slice(x, 1, 0, 1), slice(x, 1, 1, 2), slice(x, 1, 1, 2)}, 1);
  };
  Tensor p = composite::softmax(matmul(q, transpose(for_heads(k), 2, 3)) / std::sqrt(double(D)) + added);
  if (keep.defined()) p = p * keep;
  return matmul(p, for_heads(v));
}

// Numbers to add, with -inf for keys 1 and on that lie behind query t.
Tensor numbers(bool causal, DType dtype) {
  std::vector<double> values;
  for (int64_t h = 0; h < H; ++h)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t s = 0; s < S; ++s)
        values.push_back(causal && s > t + S - T ? -std::numeric_limits<double>::infinity()
                         : (h + t + s) % 4 == 3  ? -1e31
                                                 : double((3 * h + 5 * t + 7 * s) % 9) / 4 - 1);
  return Tensor::from(values, {H, T, S}).to(dtype);
}

TEST(MaskedAttention, GoesWithTheCausalMask) {
  check_op(OpCase{.name = "masked_attention",
                  .inputs = inputs,
                  .fn =
                      [](const TensorList& in) {
                        const Tensor mask = numbers(false, DType::f32).to(in[0].device());
                        return masked_attention(in[0], in[1], in[2], mask, {.causal = true});
                      },
                  .composite =
                      [](const TensorList& in) {
                        const Tensor mask = numbers(true, DType::f64).to(in[0].device());
                        return by_whole_matrix(in[0], in[1], in[2], mask);
                      },
                  .roundings = 32});
}

TEST(MaskedAttention, AddsWideNumbersToHalfTypes) {
  const std::vector<OpInput> all{{{B, H, T, D}}, {{B, KV, S, D}}, {{B, KV, S, D}}, {{B, 1, 1, S}}};
  for (auto [half, of_mask] :
       {std::pair{DType::bf16, DType::f32}, {DType::f16, DType::f16}, {DType::bf16, DType::f16}})
    check_op(
        OpCase{.name = "masked_attention",
               .inputs = all,
               .fn = [](const TensorList& in) { return masked_attention(in[0], in[1], in[2], in[3]); },
               .composite = [](const TensorList& in) { return by_whole_matrix(in[0], in[1], in[2], in[3]); },
               .roundings = 32,
               .dtypes = testing::OpDTypes{{half, half, half, of_mask}, half}});
}

TEST(MaskedAttention, DropsWhatAttentionDrops) {
  Generator generator(11);
  Tensor keep = ones({B, H, T, S}, DType::f64);
  kernels::dropout(current_stream({}), keep, 0.4, 11, 0, keep);
  std::vector<OpInput> with_bias = inputs;
  with_bias.push_back({.shape = {T, S}});
  check_op(OpCase{
      .name = "masked_attention with dropout",
      .inputs = with_bias,
      .fn =
          [&](const TensorList& in) {
            generator.set_state({11, 0});
            return masked_attention(in[0], in[1], in[2], in[3], {.dropout = 0.4, .generator = &generator});
          },
      .composite = [&](const TensorList& in) { return by_whole_matrix(in[0], in[1], in[2], in[3], keep); },
      .roundings = 32});
}

TEST(MaskedAttention, KeepsNoMatrixOfScores) {
  constexpr int64_t length = 512;
  const Shape shape{1, 2, length, 8};
  auto leaf = [&] { return randn(shape).to(test_device()).detach().set_requires_grad(); };
  const Tensor q = leaf(), k = leaf(), v = leaf();
  const Tensor mask = (tril(ones({length, length})) > 0).to(test_device());
  Allocator& memory = allocator(test_device());
  const size_t before = memory.stats().allocated;
  memory.reset_peaks();
  const Tensor y = masked_attention(q, k, v, mask);
  const size_t rows = size_t(2 * length * 4), of_q = rows * 8;
  EXPECT_LE(memory.stats().allocated - before, of_q + rows);  // the result and the log-sum-exps
  y.backward(ones(shape).to(test_device()));
  // dout and three gradients besides; a matrix has length / 8 times the bytes of q.
  EXPECT_LE(memory.stats().peak_allocated - before, 6 * of_q);
}

TEST(MaskedAttention, TakesTheLowestNumbersAsHidden) {
  const Tensor q = randn({1, 2, 3, 4}).set_requires_grad(), k = randn({1, 2, 5, 4}).set_requires_grad();
  const Tensor bits =
      Tensor::from<uint8_t>({1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, {3, 5}).to(DType::boolean);
  const Tensor want = masked_attention(q, k, k, bits), dy = randn({1, 2, 3, 4});
  const TensorList grads = autograd::grad({want}, {q, k}, {dy});
  for (double lowest : {double(std::numeric_limits<float>::lowest()), -1e30}) {
    const Tensor added = where(bits, zeros({3, 5}), full({3, 5}, lowest)).set_requires_grad();
    const Tensor got = masked_attention(q, k, k, added);
    EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>());
    for (bool create_graph : {false, true}) {
      const TensorList others =
          autograd::grad({got}, {q, k, added}, {dy}, {.retain_graph = true, .create_graph = create_graph});
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(is_close(others[i].detach(), grads[i], 1e-5)) << i;
      EXPECT_TRUE(all(isfinite(others[2])));
      EXPECT_FALSE(any(logical_and(others[2] != 0, logical_not(bits))));
    }
  }
}

TEST(MaskedAttention, LeavesAWideMaskAloneUnderAutocast) {
  const Tensor q = randn({1, 2, 17, 16}), k = randn({1, 2, 19, 16}), mask = randn({17, 19}) * 0.01 + 100;
  Tensor y;
  {
    amp::Autocast scope({}, DType::bf16);
    y = masked_attention(q, k, k, mask);
  }
  const Tensor low = q.to(DType::bf16), keys = k.to(DType::bf16);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(y.to_vector<float>(), masked_attention(low, keys, keys, mask).to_vector<float>());
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
  EXPECT_TRUE(is_close(masked_attention(q, k, v, causal), attention(q, k, v, {.causal = true}), 1e-5));
  EXPECT_TRUE(is_close(masked_attention(q, k, v, causal, {.scale = 0.1}),
                       attention(q, k, v, {.causal = true, .scale = 0.1}), 1e-5));
}

TEST(MaskedAttention, IsAttentionWithoutAMask) {
  manual_seed(8);
  const Tensor q = randn({2, 4, 5, 8}), k = randn({2, 2, 5, 8}), v = randn({2, 2, 5, 8});
  EXPECT_TRUE(same_bits(masked_attention(q, k, v, Tensor()), attention(q, k, v, {.causal = false})));
  EXPECT_TRUE(
      same_bits(masked_attention(q, k, v, Tensor(), {.causal = true}), attention(q, k, v, {.causal = true})));
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
  for (const double dropout : {-0.5, 1.0})
    expect_error([&] { masked_attention(q, k, k, mask, {.dropout = dropout}); },
                 {"dropout must be in [0, 1)"});
}

}  // namespace
}  // namespace reprise
