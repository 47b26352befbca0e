// Operations whose arguments and result have dtypes of their own, against composites in f64.
#include <cmath>
#include <optional>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::OpCase;
using testing::OpDTypes;
using testing::OpFunction;

constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16, i64 = DType::i64;
constexpr double kEps = 1e-5;

/// `fn` in a scope of autocast, outside of which dtypes do not mix.
OpFunction in_scope(DType dtype, const OpFunction& fn) {
  return [=](const TensorList& in) {
    amp::Autocast scope(in[0].device(), dtype);
    return fn(in);
  };
}

TEST(MixedDTypes, LayerNormPassesEveryCheckOfAnOp) {
  for (const OpDTypes& dtypes : {OpDTypes{{f32, f32, f32}, bf16}, OpDTypes{{f32, f32, f32}, f16},
                                 OpDTypes{{bf16, f32, f32}, f32}, OpDTypes{{f16, f32, f32}, f16}})
    check_op(OpCase{
        .name = "layer_norm",
        .inputs = {{{2, 3, 7}}, {{7}, 0.5, 1.5}, {{7}}},
        .fn = in_scope(bf16,
                       [out = dtypes.output](const TensorList& in) {
                         return layer_norm(in[0], in[1], in[2], kEps, {.out = out});
                       }),
        .composite = [](const TensorList& in) { return composite::layer_norm(in[0], in[1], in[2], kEps); },
        .roundings = 16,
        .empty_inputs = {{{0, 7}}, {{7}}, {{7}}},
        .large_inputs = {{{301, 136}}, {{136}}, {{136}}},
        .dtypes = dtypes});
}

TEST(MixedDTypes, RmsNormPassesEveryCheckOfAnOp) {
  for (const OpDTypes& dtypes : {OpDTypes{{f32, f32}, bf16}, OpDTypes{{f16, f32}, f32}})
    check_op(OpCase{.name = "rms_norm",
                    .inputs = {{{2, 3, 7}}, {{7}, 0.5, 1.5}},
                    .fn = in_scope(bf16,
                                   [out = dtypes.output](const TensorList& in) {
                                     return rms_norm(in[0], in[1], kEps, {.out = out});
                                   }),
                    .composite = [](const TensorList& in) { return composite::rms_norm(in[0], in[1], kEps); },
                    .roundings = 16,
                    .empty_inputs = {{{0, 7}}, {{7}}},
                    .large_inputs = {{{301, 136}}, {{136}}},
                    .dtypes = dtypes});
}

// The sum and the norm, which the addition behind reads in both dtypes.
TEST(MixedDTypes, AddLayerNormPassesEveryCheckOfAnOp) {
  for (const std::vector<DType>& inputs : {std::vector{f32, bf16, f32, f32}, std::vector{f16, f32, f32, f32}})
    check_op(OpCase{.name = "add_layer_norm",
                    .inputs = {{{2, 3, 7}}, {{2, 3, 7}}, {{7}, 0.5, 1.5}, {{7}}},
                    .fn = in_scope(bf16,
                                   [](const TensorList& in) {
                                     const SumAndNorm both =
                                         add_layer_norm(in[0], in[1], in[2], in[3], kEps, {.out = bf16});
                                     return both.sum + both.norm;
                                   }),
                    .composite =
                        [](const TensorList& in) {
                          const Tensor sum = in[0] + in[1];
                          return sum + composite::layer_norm(sum, in[2], in[3], kEps);
                        },
                    .roundings = 24,
                    .empty_inputs = {{{0, 7}}, {{0, 7}}, {{7}}, {{7}}},
                    .large_inputs = {{{301, 136}}, {{301, 136}}, {{136}}, {{136}}},
                    .dtypes = OpDTypes{inputs, f32}});
}

TEST(MixedDTypes, SoftmaxPassesEveryCheckOfAnOp) {
  for (const OpDTypes& dtypes : {OpDTypes{{f32}, f16}, OpDTypes{{bf16}, f32}}) {
    check_op(
        OpCase{.name = "softmax",
               .inputs = {{{2, 3, 7}}},
               .fn = [out = dtypes.output](const TensorList& in) { return softmax(in[0], {.out = out}); },
               .composite = [](const TensorList& in) { return composite::softmax(in[0]); },
               .empty_inputs = {{{0, 7}}},
               .large_inputs = {{{301, 136}}},
               .dtypes = dtypes});
    check_op(
        OpCase{.name = "log_softmax",
               .inputs = {{{2, 3, 7}}},
               .fn = [out = dtypes.output](const TensorList& in) { return log_softmax(in[0], {.out = out}); },
               .composite = [](const TensorList& in) { return composite::log_softmax(in[0]); },
               .empty_inputs = {{{0, 7}}},
               .large_inputs = {{{301, 136}}},
               .dtypes = dtypes});
  }
}

TEST(MixedDTypes, EmbeddingPassesEveryCheckOfAnOp) {
  const Tensor rows = Tensor::from<int64_t>({4, 0, 2, 2, 4, 4}, {2, 3});
  for (const OpDTypes& dtypes : {OpDTypes{{f32, i64}, bf16}, OpDTypes{{f16, i64}, f32}})
    check_op(OpCase{
        .name = "embedding",
        .inputs = {{{5, 7}}, {.shape = {2, 3}, .values = rows}},
        .fn = [out = dtypes.output](const TensorList& in) { return embedding(in[0], in[1], {.out = out}); },
        .composite = [](const TensorList& in) { return embedding(in[0], in[1]); },
        .empty_inputs = {{{5, 7}}, {.shape = {0}, .values = Tensor::empty({0}, DType::i64)}},
        .dtypes = dtypes});
}

TEST(MixedDTypes, CrossEntropyPassesEveryCheckOfAnOp) {
  const Tensor targets = Tensor::from<int64_t>({4, 0, -100, 2, 2, 1}, {6});
  for (DType half : {bf16, f16})
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
      check_op(OpCase{
          .name = "cross_entropy",
          .inputs = {{{6, 5}}, {.shape = {6}, .values = targets}},
          .fn = in_scope(half, [=](const TensorList& in) { return cross_entropy(in[0], in[1], options); }),
          .composite = [=](const TensorList& in) { return composite::cross_entropy(in[0], in[1], options); },
          .roundings = 4,  // one, of the gradient, beside dy's
          .empty_inputs = {{{0, 5}}, {.shape = {0}, .values = Tensor::empty({0}, DType::i64)}},
          .dtypes = OpDTypes{{half, i64}, f32}});
    }
}

// Of f16 the logits are kept, of bf16 their gradient.
TEST(MixedDTypes, CrossEntropyAgainstProbabilitiesPassesEveryCheckOfAnOp) {
  for (const auto& [of_logits, of_targets] :
       {std::pair{bf16, f32}, {f16, f32}, {bf16, bf16}, {f16, bf16}, {f32, f16}})
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
      check_op(OpCase{
          .name = "cross_entropy against probabilities",
          .inputs = {{{2, 3, 5}}, {.shape = {2, 3, 5}, .low = 0, .high = 0.5, .requires_grad = false}},
          .fn = in_scope(bf16, [=](const TensorList& in) { return cross_entropy(in[0], in[1], options); }),
          .composite = [=](const TensorList& in) { return composite::cross_entropy(in[0], in[1], options); },
          .empty_inputs = {{{0, 5}}, {.shape = {0, 5}, .requires_grad = false}},
          .large_inputs = {{{301, 97}}, {.shape = {301, 97}, .low = 0, .high = 0.02, .requires_grad = false}},
          .dtypes = OpDTypes{{of_logits, of_targets}, f32}});
    }
}

// No copy of them is made or kept, inside of a scope and outside.
TEST(MixedDTypes, CrossEntropyReadsProbabilitiesWhereTheyLie) {
  const Tensor targets = full({64, 512}, 1.0 / 512).to(bf16).to(testing::test_device());
  for (bool is_autocast : {false, true}) {
    const Tensor logits = zeros({64, 512}, f32, testing::test_device()).set_requires_grad();
    std::optional<amp::Autocast> scope;
    if (is_autocast) scope.emplace(testing::test_device(), bf16);
    testing::CountCasts count;
    Allocator& memory = allocator(testing::test_device());
    const size_t before = memory.stats().held, gradient = 4 * 64 * 512;
    memory.reset_peaks();
    const Tensor loss = cross_entropy(logits, targets);
    EXPECT_EQ(count.casts, 0);
    EXPECT_LT(memory.stats().peak_held - before, gradient * 5 / 4) << "a copy in f32 is as large";
    EXPECT_NEAR(loss.item(), std::log(512.0), 1e-5);
  }
}

TEST(MixedDTypes, EpiloguesOfProductsPassEveryCheckOfAnOp) {
  for (DType half : {bf16, f16}) {
    check_op(OpCase{
        .name = "linear",
        .inputs = {{{2, 3, 5}}, {{7, 5}}, {{7}}, {{2, 3, 7}}},
        .fn = in_scope(half,
                       [](const TensorList& in) { return linear(in[0], in[1], in[2], {.residual = in[3]}); }),
        .composite =
            [](const TensorList& in) { return composite::linear(in[0], in[1], in[2], {.residual = in[3]}); },
        .roundings = 32,  // the gradient of the f32 result is rounded for the products
        .sums_bias_with_weight = true,
        .large_inputs = {{{131, 40}}, {{72, 40}}, {{72}}, {{131, 72}}},
        .dtypes = OpDTypes{{half, half, f32, f32}, f32}});
    check_op(
        OpCase{.name = "patch_embed",
               .inputs = {{{2, 3, 4, 6}}, {{5, 3, 2, 2}}, {{5}}},
               .fn = in_scope(half, [](const TensorList& in) { return patch_embed(in[0], in[1], in[2]); }),
               .composite = [](const TensorList& in) { return composite::patch_embed(in[0], in[1], in[2]); },
               .roundings = 32,
               .sums_bias_with_weight = true,
               .dtypes = OpDTypes{{f32, half, half}, half}});
  }
}

// Images, which want no gradient.
TEST(MixedDTypes, ConvolutionOfF32ImagesPassesEveryCheckOfAnOp) {
  for (DType half : {bf16, f16})
    check_op(OpCase{.name = "conv2d",
                    .inputs = {{.shape = {2, 3, 4, 6}, .low = -1, .high = 1, .requires_grad = false},
                               {{5, 3, 3, 2}, -1, 1},
                               {{5}, -1, 1}},
                    .fn = in_scope(half,
                                   [](const TensorList& in) {
                                     return conv2d(in[0], in[1], in[2], {.stride = {1, 2}, .padding = 1});
                                   }),
                    .composite =
                        [](const TensorList& in) {
                          return composite::conv2d(in[0], in[1], in[2], {.stride = {1, 2}, .padding = 1});
                        },
                    .roundings = 64,  // that of the images, and those of sums over all windows
                    .dtypes = OpDTypes{{f32, half, f32}, half}});
}

// Outside of a scope: the factors have one dtype, the result the one that is asked for.
TEST(MixedDTypes, ResultsOfProductsPassEveryCheckOfAnOp) {
  for (const auto& [of, out] :
       {std::pair{f32, bf16}, std::pair{f32, f16}, std::pair{bf16, f32}, std::pair{f16, f32}}) {
    const auto all = [of = of, out = out](size_t count) {
      return OpDTypes{std::vector<DType>(count, of), out};
    };
    check_op(OpCase{
        .name = "linear",
        .inputs = {{{2, 3, 5}}, {{7, 5}}, {{7}}, {{2, 3, 7}}},
        .fn =
            [out = out](const TensorList& in) {
              return linear(in[0], in[1], in[2], {.residual = in[3], .out = out});
            },
        .composite =
            [](const TensorList& in) { return composite::linear(in[0], in[1], in[2], {.residual = in[3]}); },
        .roundings = 32,  // dy is rounded for the products
        .sums_bias_with_weight = true,
        .large_inputs = {{{131, 40}}, {{72, 40}}, {{72}}, {{131, 72}}},
        .dtypes = all(4)});
    check_op(OpCase{.name = "mlp",
                    .inputs = {{{3, 5}}, {{7, 5}}, {{7}}, {{4, 7}}, {{4}}},
                    .fn =
                        [out = out](const TensorList& in) {
                          return mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu, {.out = out});
                        },
                    .composite =
                        [](const TensorList& in) {
                          return composite::mlp(in[0], in[1], in[2], in[3], in[4], Activation::gelu, {});
                        },
                    .roundings = 64,
                    .sums_bias_with_weight = true,
                    .dtypes = all(5)});
    check_op(OpCase{.name = "matmul",
                    .inputs = {{{2, 3, 5}}, {{5, 7}}},
                    .fn = [out = out](const TensorList& in) { return matmul(in[0], in[1], {.out = out}); },
                    .composite = [](const TensorList& in) { return matmul(in[0], in[1]); },
                    .roundings = 32,
                    .dtypes = all(2)});
    check_op(OpCase{
        .name = "patch_embed",
        .inputs = {{{2, 3, 4, 6}}, {{5, 3, 2, 2}}, {{5}}},
        .fn = [out = out](const TensorList& in) { return patch_embed(in[0], in[1], in[2], {.out = out}); },
        .composite = [](const TensorList& in) { return composite::patch_embed(in[0], in[1], in[2]); },
        .roundings = 32,
        .sums_bias_with_weight = true,
        .dtypes = all(3)});
  }
}

TEST(MixedDTypes, SumsAndJoinsPassEveryCheckOfAnOp) {
  for (DType half : {bf16, f16})
    for (bool wide_first : {false, true}) {
      const std::vector<DType> dtypes = {wide_first ? f32 : half, wide_first ? half : f32};
      check_op(OpCase{.name = "add",
                      .inputs = {{{2, 3, 7}}, {{3, 7}}},
                      .fn = [](const TensorList& in) { return in[0] + in[1]; },
                      .composite = [](const TensorList& in) { return in[0] + in[1]; },
                      .empty_inputs = {{{0, 3, 7}}, {{3, 7}}},
                      .large_inputs = {{{301, 136}}, {{301, 136}}},
                      .dtypes = OpDTypes{dtypes, f32}});
      check_op(OpCase{.name = "concat",
                      .inputs = {{{2, 3, 7}}, {{2, 4, 7}}},
                      .fn = in_scope(half, [](const TensorList& in) { return concat(in, 1); }),
                      .composite = [](const TensorList& in) { return concat(in, 1); },
                      .empty_inputs = {{{2, 0, 7}}, {{2, 4, 7}}},
                      .dtypes = OpDTypes{dtypes, f32}});
    }
}

}  // namespace
}  // namespace reprise
