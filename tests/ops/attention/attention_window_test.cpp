// The window of masked attention, against loops in f64 and against masks that say the same key by key.
#include "reprise/autograd/ops/attention/attention_window.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/core/memory.h"
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

// Whether query t of T, which stands at t + S - T, sees key s of S.
bool is_near(int64_t t, int64_t queries, int64_t s, int64_t keys, int64_t window, bool causal) {
  const int64_t place = t + keys - queries;
  return std::abs(place - s) < window && (!causal || s <= place);
}

// The same as a mask of numbers, in f64.
Tensor near_keys(int64_t queries, int64_t keys, int64_t window, bool causal) {
  std::vector<double> added;
  for (int64_t t = 0; t < queries; ++t)
    for (int64_t s = 0; s < keys; ++s)
      added.push_back(
          is_near(t, queries, s, keys, window, causal) ? 0 : -std::numeric_limits<double>::infinity());
  return Tensor::from(added, {queries, keys});
}

struct Problem {
  int64_t queries, keys, window;
  bool causal;
};
constexpr int64_t B = 2, H = 4, KV = 2, D = 4;

std::vector<double> by_loops(const TensorList& in, const Problem& p) {
  const std::vector<double> q = in[0].to_vector<double>(), k = in[1].to_vector<double>(),
                            v = in[2].to_vector<double>();
  std::vector<double> y;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < p.queries; ++t) {
        const int64_t of_q = ((b * H + h) * p.queries + t) * D, of_kv = (b * KV + h / (H / KV)) * p.keys * D;
        double total = 0;
        std::vector<double> sum(size_t(D), 0);
        for (int64_t s = 0; s < p.keys; ++s) {
          if (!is_near(t, p.queries, s, p.keys, p.window, p.causal)) continue;
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += q[size_t(of_q + d)] * k[size_t(of_kv + s * D + d)];
          const double weight = std::exp(score / std::sqrt(double(D)));
          total += weight;
          for (int64_t d = 0; d < D; ++d) sum[size_t(d)] += weight * v[size_t(of_kv + s * D + d)];
        }
        for (int64_t d = 0; d < D; ++d) y.push_back(total > 0 ? sum[size_t(d)] / total : 0);
      }
  return y;
}

TEST(AttentionWindow, PassesEveryCheckOfAnOp) {
  for (const Problem& p : {Problem{5, 5, 2, true}, {3, 5, 2, true}, {5, 5, 3, false}, {5, 3, 1, false}})
    check_op(OpCase{.name = "masked_attention within a window",
                    .inputs = {{{B, H, p.queries, D}}, {{B, KV, p.keys, D}}, {{B, KV, p.keys, D}}},
                    .fn =
                        [&](const TensorList& in) {
                          return masked_attention(in[0], in[1], in[2], Tensor(),
                                                  {.causal = p.causal, .window = p.window});
                        },
                    .reference = [&](const TensorList& in) { return by_loops(in, p); },
                    .roundings = 24});
}

TEST(AttentionWindow, GoesWithAMaskThatIsTrained) {
  for (bool causal : {true, false}) {
    auto by_matrix = [&](const TensorList& in) {
      auto for_heads = [](const Tensor& x) {
        return concat({slice(x, 1, 0, 1), slice(x, 1, 0, 1), slice(x, 1, 1, 2), slice(x, 1, 1, 2)}, 1);
      };
      const Tensor scores = matmul(in[0], transpose(for_heads(in[1]), 2, 3)) / std::sqrt(double(D));
      const Tensor near = near_keys(3, 5, 2, causal).to(in[0].device());
      return matmul(composite::softmax(scores + in[3] + near), for_heads(in[2]));
    };
    check_op(OpCase{.name = "masked_attention of numbers within a window",
                    .inputs = {{{B, H, 3, D}}, {{B, KV, 5, D}}, {{B, KV, 5, D}}, {{H, 1, 5}}},
                    .fn =
                        [&](const TensorList& in) {
                          return masked_attention(in[0], in[1], in[2], in[3],
                                                  {.causal = causal, .window = 2});
                        },
                    .composite = by_matrix,
                    .roundings = 32});
  }
}

// Of several blocks of queries and keys, some of which are hidden as a whole, with padding of sample 1; in f32 and, on
// devices, by tensor cores.
TEST(AttentionWindow, IsTheMaskThatSaysSoKeyByKey) {
  const int64_t keys = 150;
  for (int64_t queries : {150, 70})
    for (bool causal : {true, false})
      for (bool padded : {true, false})
        for (DType dtype : {DType::f32, DType::bf16}) {
          manual_seed(7);
          auto leaf = [&](int64_t heads, int64_t rows) {
            return randn({2, heads, rows, 16}).to(dtype).to(test_device()).detach().set_requires_grad();
          };
          const Tensor q = leaf(2, queries), k = leaf(1, keys), v = leaf(1, keys);
          const Tensor near = near_keys(queries, keys, 33, causal) == 0,
                       real = arange(keys) < Tensor::from<int64_t>({keys, 60}, {2, 1, 1, 1});
          const Tensor said = (padded ? near & real : near).to(test_device());
          const Tensor given = padded ? real.to(test_device()) : Tensor();
          const Tensor want = masked_attention(q, k, v, said),
                       got = masked_attention(q, k, v, given, {.causal = causal, .window = 33});
          EXPECT_TRUE(same_bits(got.detach(), want.detach())) << queries << causal << padded << dtype;
          const Tensor dy = randn(want.shape()).to(dtype).to(test_device());
          const TensorList from = autograd::grad({want}, {q, k, v}, {dy}),
                           to = autograd::grad({got}, {q, k, v}, {dy});
          for (size_t i = 0; i < from.size(); ++i)
            EXPECT_TRUE(is_close(to[i], from[i], dtype == DType::f32 ? 1e-5 : 2e-2))
                << i << ' ' << queries << causal << padded << dtype;
        }
}

// As long as the sequence it is attention without one, to the bit.
TEST(AttentionWindow, CostsNothingWhereItHidesNothing) {
  const Tensor q = randn({1, 2, 7, 8}).to(test_device());
  EXPECT_TRUE(same_bits(masked_attention(q, q, q, Tensor(), {.causal = true, .window = 7}),
                        attention(q, q, q, {.causal = true})));
  EXPECT_FALSE(same_bits(masked_attention(q, q, q, Tensor(), {.causal = true, .window = 6}),
                         attention(q, q, q, {.causal = true})));
  EXPECT_TRUE(
      same_bits(masked_attention(q, q, q, Tensor(), {.window = 7}), attention(q, q, q, {.causal = false})));
  const int64_t endless = std::numeric_limits<int64_t>::max();
  const Tensor all_seen = ones({7, 7}, DType::boolean, test_device());
  EXPECT_TRUE(same_bits(masked_attention(q, q, q, all_seen, {.window = endless}),
                        masked_attention(q, q, q, all_seen)));
  const Tensor trained = zeros({7, 7}).to(test_device()).detach().set_requires_grad();
  masked_attention(q, q, q, trained, {.causal = true, .window = endless}).backward(q);
  const Tensor within = trained.grad();
  trained.set_grad({});
  masked_attention(q, q, q, trained, {.causal = true}).backward(q);
  EXPECT_TRUE(same_bits(within, trained.grad()));
  const autograd::AttentionWindow later{4, 5, 4};  // the first query stands before the first key
  EXPECT_TRUE(later.hides(false));
  EXPECT_FALSE(later.hides(true));
}

TEST(AttentionWindow, KeepsAndMakesNoMatrix) {
  constexpr int64_t length = 1024;
  const Shape shape{1, 1, length, 8};
  auto leaf = [&] { return randn(shape).to(test_device()).detach().set_requires_grad(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), dy = ones(shape).to(test_device());
  Allocator& memory = allocator(test_device());
  const size_t before = memory.stats().allocated;
  memory.reset_peaks();
  const Tensor y = masked_attention(q, k, v, Tensor(), {.causal = true, .window = 16});
  const size_t rows = size_t(length * 4), of_q = rows * 8;
  EXPECT_LE(memory.stats().allocated - before, of_q + rows);
  y.backward(dy);
  EXPECT_LE(memory.stats().peak_allocated - before,
            6 * of_q);  // the bits of a matrix are 32 times those of q
}

TEST(AttentionWindow, DropsWhatAttentionDrops) {
  manual_seed(3);
  const Tensor q = randn({1, 2, 20, 8}), near = near_keys(20, 20, 5, true) == 0;
  auto dropped = [&](const Tensor& mask, int64_t window) {
    Generator generator(11);
    return masked_attention(q, q, q, mask,
                            {.causal = true, .window = window, .dropout = 0.4, .generator = &generator});
  };
  EXPECT_TRUE(same_bits(dropped(Tensor(), 5), dropped(near, 0)));
}

TEST(AttentionWindow, AReplayWithAnotherWindowIsNoticed) {
  int64_t window = 2;
  const Tensor q = randn({1, 2, 6, 8}).set_requires_grad();
  const Tensor y = checkpoint(
      [&](const Tensor& x) {
        return masked_attention(x, x, x, Tensor(), {.causal = true, .window = window});
      },
      q);
  window = 3;
  expect_error([&] { y.sum().backward(); }, {"masked_attention"});
}

TEST(AttentionWindow, NamesWhatIsWrong) {
  const Tensor q = zeros({1, 2, 3, 8});
  expect_error([&] { masked_attention(q, q, q, Tensor(), {.window = -1}); },
               {"masked_attention: window must be at least 0, got -1"});
  expect_error(
      [&] {
        masked_attention(q, zeros({1, 2, 3, 4}), q, Tensor(), {.window = 2});
      },
      {"attention: "});
}

}  // namespace
}  // namespace reprise
