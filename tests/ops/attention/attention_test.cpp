// Attention, packed or not, against matmul and softmax over the whole matrix of scores.
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/elementwise/dropout.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::is_close;
using testing::OpCase;
using testing::test_device;

// Scores, probabilities and their gradients are rounded in half types by the kernel's own tiles.
constexpr double kRoundings = 32;

void check_attention(const char* name, const Shape& q, const Shape& kv, const AttentionOptions& options) {
  check_op(OpCase{
      .name = name,
      .inputs = {{q, -1, 1}, {kv, -1, 1}, {kv, -1, 1}},
      .fn = [=](const TensorList& in) { return attention(in[0], in[1], in[2], options); },
      .composite = [=](const TensorList& in) { return composite::attention(in[0], in[1], in[2], options); },
      .roundings = kRoundings});
}

TEST(Attention, PassesEveryCheckOfAnOp) {
  check_attention("causal", {1, 2, 3, 3}, {1, 2, 3, 3}, {.causal = true});
  check_attention("full, scaled", {1, 1, 3, 5}, {1, 1, 4, 5}, {.causal = false, .scale = 0.3});
  check_attention("causal, more keys than queries", {1, 1, 2, 3}, {1, 1, 5, 3}, {.causal = true});
  check_attention("grouped heads", {1, 4, 2, 3}, {1, 2, 2, 3}, {});
  check_attention("grouped heads, causal", {1, 4, 2, 3}, {1, 2, 2, 3}, {.causal = true});
}

TEST(Attention, OfLongSequencesIsExactAcrossThreads) {
  check_op(OpCase{
      .name = "attention",
      .inputs = {{{1, 1, 2, 2}}, {{1, 1, 2, 2}}, {{1, 1, 2, 2}}},
      .fn = [](const TensorList& in) { return attention(in[0], in[1], in[2], {.causal = true}); },
      .composite =
          [](const TensorList& in) { return composite::attention(in[0], in[1], in[2], {.causal = true}); },
      .roundings = kRoundings,
      .empty_inputs = {{{0, 1, 2, 2}}, {{0, 1, 2, 2}}, {{0, 1, 2, 2}}},
      .large_inputs = {{{2, 3, 137, 19}}, {{2, 3, 137, 19}}, {{2, 3, 137, 19}}}});
}

// The same draw in every call: a generator set back to its start.
struct FixedDraw {
  Generator generator{11};
  AttentionOptions options() {
    generator.set_state({11, 0});
    return {.causal = true, .dropout = 0.4, .generator = &generator};
  }
  /// Factors of that draw for probabilities of `shape`.
  static Tensor mask(const Shape& shape) {
    Tensor factors = ones(shape, DType::f64);
    kernels::dropout(current_stream({}), factors, 0.4, 11, 0, factors);
    return factors;
  }
};

TEST(Attention, WithDropoutAgreesWithTheCompositeUnderTheSameMask) {
  FixedDraw draw;
  const Tensor mask = draw.mask({1, 2, 4, 4});
  check_op(OpCase{.name = "attention with dropout",
                  .inputs = {{{1, 2, 4, 3}}, {{1, 2, 4, 3}}, {{1, 2, 4, 3}}},
                  .fn = [&](const TensorList& in) { return attention(in[0], in[1], in[2], draw.options()); },
                  .composite =
                      [&](const TensorList& in) {
                        return composite::attention(in[0], in[1], in[2], {.causal = true}, mask);
                      },
                  .roundings = kRoundings});
}

Tensor attention_of_parts(const Tensor& qkv, int64_t heads, const Tensor& mask = {}) {
  int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  auto part = [&](int64_t which) {
    Tensor slab = slice(qkv, 2, which * width, (which + 1) * width);
    return transpose(reshape(slab, {batch, length, heads, width / heads}), 1, 2);
  };
  return reshape(transpose(composite::attention(part(0), part(1), part(2), {.causal = true}, mask), 1, 2),
                 {batch, length, width});
}

TEST(PackedAttention, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "packed_attention",
                  .inputs = {{{2, 3, 12}, -1, 1}},
                  .fn = [](const TensorList& in) { return packed_attention(in[0], 2, {.causal = true}); },
                  .composite = [](const TensorList& in) { return attention_of_parts(in[0], 2); },
                  .roundings = kRoundings,
                  .empty_inputs = {{{0, 3, 12}}},
                  .large_inputs = {{{2, 131, 96}}}});
}

TEST(PackedAttention, DropsTheSameProbabilitiesAsAttention) {
  FixedDraw draw;
  Generator values(3);
  Tensor qkv = randn({2, 5, 12}, DType::f64, {}, &values);
  auto part = [&](int64_t which) {
    return transpose(reshape(slice(qkv, 2, which * 4, which * 4 + 4), {2, 5, 2, 2}), 1, 2);
  };
  Tensor want = attention(part(0), part(1), part(2), draw.options());
  Tensor got = packed_attention(qkv, 2, draw.options());
  EXPECT_TRUE(is_close(got, reshape(transpose(want, 1, 2), {2, 5, 4}), 1e-14));
}

TEST(PackedAttention, WithDropoutPassesEveryCheckOfAnOp) {
  FixedDraw draw;
  const Tensor mask = draw.mask({1, 2, 3, 3});
  check_op(OpCase{.name = "packed_attention with dropout",
                  .inputs = {{{1, 3, 12}, -1, 1}},
                  .fn = [&](const TensorList& in) { return packed_attention(in[0], 2, draw.options()); },
                  .composite = [&](const TensorList& in) { return attention_of_parts(in[0], 2, mask); },
                  .roundings = kRoundings});
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Tensor q = zeros({1, 2, 3, 4});
  expect_error(
      [&] {
        attention(q, zeros({1, 2, 3, 5}), zeros({1, 2, 3, 5}));
      },
      {"attention", "(1, 2, 3, 5)"});
  expect_error([&] { attention(q, zeros({1, 3, 3, 4}), zeros({1, 3, 3, 4})); }, {"attention"});
  expect_error([&] { attention(q, q, zeros({1, 2, 4, 4})); }, {"attention"});
  expect_error([&] { attention(q, q, zeros({1, 2, 3, 4}, DType::f64)); }, {"attention", "f64"});
  expect_error([&] { attention(q, q, q, {.dropout = 1}); }, {"attention", "dropout"});
  expect_error([&] { attention(q, q, q, {.scale = NAN}); }, {"attention: scale must be finite, got nan"});
  EXPECT_NO_THROW(packed_attention(zeros({1, 3, 9}), 1));
  expect_error([&] { packed_attention(zeros({1, 3, 9}), 0); }, {"packed_attention", "0 heads"});
  expect_error([&] { packed_attention(zeros({1, 3, 10}), 2); }, {"packed_attention", "(1, 3, 10)"});
}

// PyTorch 2.15's math backend: a row without a key is 0, and so are its gradients.
TEST(Attention, GivesRowsThatSeeNoKeyNothingInThePlainPassAndUnderCreateGraph) {
  Generator generator(5);
  for (int64_t keys : {3, 1, 0}) {
    auto leaf = [&](const Shape& shape) {
      return randn(shape, DType::f64, {}, &generator).to(test_device()).detach().set_requires_grad();
    };
    Tensor q = leaf({1, 2, 5, 4}), k = leaf({1, 1, keys, 4}), v = leaf({1, 1, keys, 4});
    Tensor dy = randn({1, 2, 5, 4}, DType::f64, {}, &generator).to(test_device());
    Tensor y = attention(q, k, v, {.causal = true});
    for (const Tensor& out : {y, composite::attention(q, k, v, {.causal = true})})
      EXPECT_EQ(out.detach().slice(2, 0, 5 - keys).to_vector<double>(),
                std::vector<double>(size_t(2 * (5 - keys) * 4), 0.0));
    EXPECT_TRUE(is_close(composite::attention(q, k, v, {.causal = true}).detach(), y.detach(), 1e-14));
    TensorList plain = grad({y}, {q, k, v}, {dy}, {.retain_graph = true});
    TensorList graph = grad({y}, {q, k, v}, {dy}, {.create_graph = true});
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(is_close(graph[i].detach(), plain[i], 1e-14)) << keys << " keys, " << i;
    EXPECT_EQ(plain[0].slice(2, 0, 5 - keys).to_vector<double>(),
              std::vector<double>(size_t(2 * (5 - keys) * 4), 0.0));
  }
}

}  // namespace
}  // namespace reprise
