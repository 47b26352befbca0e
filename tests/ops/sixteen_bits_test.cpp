// Under autocast operations that compute in f32 read 16 bits where they lie: the bits of a cast and the operation, without the cast.
#include <cmath>
#include <functional>
#include <vector>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/losses.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/elementwise/powers.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/reduce/similarity.h"
#include "reprise/autograd/ops/reduce/vector_norm.h"
#include "reprise/tests/nn/autocast/casts.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::CountCasts;
using testing::is_close;
using testing::OpCase;
using testing::OpDTypes;
using testing::OpFunction;
using testing::same_bits;
using testing::test_device;

constexpr DType f32 = DType::f32, f64 = DType::f64, bf16 = DType::bf16, f16 = DType::f16;
constexpr DType kHalves[] = {bf16, f16};

/// An operation whose inputs are each of f32 or 16 bits, where `keeps_f32` says, bit i for the i-th, of f32 alone.
struct Op {
  OpCase of;
  unsigned keeps_f32 = 0;
  size_t results = 1;  ///< f32 tensors of the size of its result that it makes, at a time
  size_t kept = 0;     ///< of which so many are kept beside the result
  double made_of_input = 0, kept_of_input = 0;  ///< the same of its input, where the result has another size
  bool twice_in_parts = false;  ///< its second derivative has several parts, each rounded to 16 bits

  std::vector<DType> dtypes(DType half) const {
    std::vector<DType> all;
    for (size_t i = 0; i < of.inputs.size(); ++i) all.push_back(keeps_f32 >> i & 1 ? f32 : half);
    return all;
  }
};

Op of_numbers(const char* name, double low, double high, Tensor (*f)(const Tensor&), double roundings = 8) {
  return {{.name = name,
           .inputs = {{{3, 2, 7}, low, high}},
           .fn = [f](const TensorList& in) { return f(in[0]); },
           .roundings = roundings,
           .empty_inputs = {{{0, 7}}},
           .large_inputs = {{{301, 136}, low, high}}}};
}

Op with_results(size_t results, Op op) {
  op.results = results;
  return op;
}

Op power(double exponent) {
  return {{.name = detail::join("pow ", exponent),
           .inputs = {{{3, 2, 7}, 0.5, 2}},
           .fn = [=](const TensorList& in) { return pow(in[0], exponent); },
           .roundings = 16,
           .empty_inputs = {{{0, 7}}},
           .large_inputs = {{{301, 136}, 0.5, 2}}}};
}

Op of_pairs(const char* name, size_t made_beside, Tensor (*f)(const Tensor&, const Tensor&)) {
  return {.of = {.name = name,
                 .inputs = {{{3, 2, 7}}, {{3, 2, 7}, 0.1, 0.9}},
                 .fn = [f](const TensorList& in) { return f(in[0], in[1]); },
                 .roundings = 24,
                 .empty_inputs = {{{0, 7}}, {{0, 7}}},
                 .large_inputs = {{{301, 136}}, {{301, 136}, 0.1, 0.9}}},
          .results = 1 + made_beside,
          .kept = made_beside};
}

Op beside_f32(const char* name, Tensor (*f)(const Tensor&, const Tensor&), unsigned keeps_f32 = 0b01) {
  Op op = of_pairs(name, 0, f);
  op.keeps_f32 = keeps_f32;
  return op;
}

Op cosine() {
  Op op = of_pairs("cosine_similarity", 0, [](auto& x, auto& y) { return cosine_similarity(x, y, -1); });
  op.of.roundings = 48;
  op.made_of_input = 3, op.kept_of_input = 2;  // both vectors of length 1, and their product
  return op;
}

Op of_tensors(const char* name, unsigned keeps_f32) {
  return {.of = {.name = name,
                 .inputs = {{{3, 2, 7}, 0.5, 2}, {{7}}},
                 .fn = [](const TensorList& in) { return pow(in[0], in[1]); },
                 .roundings = 48,
                 .empty_inputs = {{{0, 7}, 0.5, 2}, {{7}}},
                 .large_inputs = {{{301, 136}, 0.5, 2}, {{301, 136}}}},
          .keeps_f32 = keeps_f32};
}

Op group_norm_of(int64_t groups, const Shape& shape) {
  return {.of = {.name = detail::join("group_norm of ", shape),
                 .inputs = {{shape}, {{shape[1]}, 0.5, 1.5}, {{shape[1]}}},
                 .fn = [=](const TensorList& in) { return group_norm(in[0], groups, in[1], in[2]); },
                 .composite =
                     [=](const TensorList& in) {
                       return composite::group_norm(in[0], groups, in[1], in[2], 1e-5);
                     },
                 .roundings = 24,
                 .empty_inputs = {{{0, 4, 5}}, {{4}, 0.5, 1.5}, {{4}}},
                 .large_inputs = {{{17, 24, 24, 8}}, {{24}, 0.5, 1.5}, {{24}}}},
          .keeps_f32 = 0b110};
}

Op interpolated(const char* name, const InterpolateOptions& options) {
  return {.of = {.name = name,
                 .inputs = {{{2, 3, 5, 7}}},
                 .fn =
                     [=](const TensorList& in) {
                       return interpolate(in[0], {9, 4}, options);
                     },
                 .roundings = 16,
                 .empty_inputs = {{{0, 3, 5, 7}}},
                 .large_inputs = {{{5, 8, 40, 44}}}}};
}

// A reduction over some dimensions, and over all.
Op reduction(const std::string& name, double low, double high, double made_of_input, double kept_of_input,
             const std::function<Tensor(const Tensor&)>& f) {
  return {.of = {.name = name,
                 .inputs = {{{3, 4, 5}, low, high}},
                 .fn = [f](const TensorList& in) { return f(in[0]); },
                 .roundings = 48,
                 .large_inputs = {{{301, 136}, low, high}}},
          .made_of_input = made_of_input,
          .kept_of_input = kept_of_input};
}

Op in_parts(Op op) {
  op.twice_in_parts = true;
  return op;
}

Op norm_of_order(double order) {
  // Its powers: two f32 tensors, where zeros are put in too, beside two of 16 bits and a mask.
  const bool is_power = order != 1 && order != 2 && std::isfinite(order);
  return reduction(order == 2 ? "vector_norm of order 2" : detail::join("vector_norm of order ", order), 0.25,
                   2, is_power ? 3.5 : 1, is_power ? 1.25 : 0.5,
                   [=](const Tensor& x) { return vector_norm(x, order, {-1}); });
}

Op of_classes(const char* name, const NllLossOptions& options) {
  return reduction(name, -4, -0.5, 0, 0, [=](const Tensor& x) {
    const Shape rows = autograd::rows_shape(x);
    const int64_t classes = x.size(-1);
    const Tensor counted = arange(numel_of(rows), DType::i64, x.device());
    const Tensor targets =
        reshape(where(counted == 2, counted * 0 - 100, remainder(counted * 3, classes)), rows);
    NllLossOptions of_device = options;
    if (options.reduction == Reduction::sum) of_device.weight = arange(classes, f32, x.device());
    return nll_loss(x, targets, of_device);
  });
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all = {
      of_numbers("exp", -2, 2, exp),
      of_numbers("log", 0.5, 4, log),
      of_numbers("rsqrt", 0.5, 4, rsqrt),
      of_numbers("reciprocal", 0.5, 4, reciprocal),
      with_results(2, of_numbers("number / x", 0.5, 4, [](const Tensor& x) { return 3.0 / x; })),
      of_numbers("square", -2, 2, square),
      of_numbers("log1p", -0.5, 4, log1p),
      of_numbers("expm1", -2, 2, expm1),
      of_numbers("softplus", -4, 4, softplus),
      with_results(4, of_numbers("softplus with a threshold", -4, 4,
                                 [](const Tensor& x) { return softplus(x, 1.5, 2); })),
      of_numbers(
          "cumsum", -2, 2, [](const Tensor& x) { return cumsum(x, 0); }, 48),
      power(3),
      power(0.3),
      power(2),
      power(0.5),
      power(1),
      power(0),
      of_tensors("pow of tensors", 0),
      of_tensors("pow of a tensor of f32", 0b01),
      of_tensors("pow to a tensor of f32", 0b10),
      beside_f32("a product of f32", [](auto& x, auto& y) { return x * y; }),
      beside_f32("a difference from f32", [](auto& x, auto& y) { return x - y; }),
      beside_f32("a quotient of f32", [](auto& x, auto& y) { return x / y; }),
      beside_f32(
          "a quotient by f32", [](auto& x, auto& y) { return x / y; }, 0b10),
      beside_f32("a maximum beside f32", [](auto& x, auto& y) { return maximum(x, y); }),
      beside_f32("a minimum beside f32", [](auto& x, auto& y) { return minimum(y, x); }),
      beside_f32("where beside f32",
                 [](auto& x, auto& y) { return where(arange(x.size(-1), f32, x.device()) < 3, x, y); }),
      of_pairs("bce_with_logits", 0, [](auto& x, auto& y) { return bce_with_logits(x, y, Reduction::none); }),
      of_pairs("bce_with_logits with a weight", 1,
               [](auto& x, auto& y) {
                 const Tensor weight = full({1}, 3, f32, x.device());
                 return bce_with_logits(x, y, {.weight = weight, .reduction = Reduction::none});
               }),
      with_results(7, of_pairs("bce_with_logits with a weight of positive ones", 0,
                               [](auto& x, auto& y) {
                                 const Tensor weight = arange(x.size(-1), f32, x.device()) * 0.25 + 0.5;
                                 return bce_with_logits(x, y,
                                                        {.pos_weight = weight, .reduction = Reduction::none});
                               })),
      with_results(8,
                   of_pairs("bce_loss", 0, [](auto& x, auto& y) { return bce_loss(y, x, Reduction::none); })),
      with_results(4,
                   of_pairs("kl_div", 0,
                            [](auto& x, auto& y) { return kl_div(x, y, {.reduction = Reduction::none}); })),
      with_results(4, of_pairs("kl_div of logarithms", 0,
                               [](auto& x, auto& y) {
                                 return kl_div(y, x, {.log_target = true, .reduction = Reduction::none});
                               })),
      of_pairs("smooth_l1", 1,
               [](auto& x, auto& y) { return smooth_l1(x, y, {.reduction = Reduction::none}); }),
      of_pairs("mse_loss", 1, [](auto& x, auto& y) { return mse_loss(x, y, Reduction::none); }),
      of_pairs("l1_loss", 1, [](auto& x, auto& y) { return l1_loss(x, y, Reduction::none); }),
      with_results(
          3, of_pairs("huber_loss", 1,
                      [](auto& x, auto& y) { return huber_loss(x, y, {.reduction = Reduction::none}); })),
      reduction("norm", -2, 2, 1, 0, [](const Tensor& x) { return norm(x, {-1}); }),
      norm_of_order(1),
      norm_of_order(2),
      in_parts(norm_of_order(3)),
      in_parts(norm_of_order(0.5)),
      norm_of_order(INFINITY),
      norm_of_order(-INFINITY),
      reduction("logsumexp", -4, 4, 1, 0, [](const Tensor& x) { return logsumexp(x, {-1}); }),
      reduction("logsumexp of all", -4, 4, 1, 0, [](const Tensor& x) { return logsumexp(x); }),
      in_parts(reduction("prod", 0.75, 1.25, 1.25, 1, [](const Tensor& x) { return prod(x, {-1}); })),
      reduction("normalize", -2, 2, 0, 0, [](const Tensor& x) { return normalize(x, -1); }),
      cosine(),
      of_classes("nll_loss", {.reduction = Reduction::none}),
      of_classes("nll_loss, mean", {}),
      of_classes("nll_loss with weights", {.reduction = Reduction::sum}),
      reduction("cross_entropy with weights", -4, 4, 1, 1,
                [](const Tensor& x) {
                  const Tensor targets = zeros(autograd::rows_shape(x), DType::i64, x.device());
                  return cross_entropy(x, targets, {.weight = arange(x.size(-1), f32, x.device()) + 0.5});
                }),
      group_norm_of(2, {3, 4, 5, 7}),
      group_norm_of(4, {2, 8, 8}),
      interpolated("interpolate bilinear", {.mode = Interpolation::bilinear}),
      interpolated("interpolate bicubic", {.mode = Interpolation::bicubic, .antialias = true}),
      interpolated("interpolate nearest", {.mode = Interpolation::nearest}),
  };
  return all;
}

/// `fn` in a scope of autocast.
OpFunction in_scope(DType dtype, const OpFunction& fn) {
  return [=](const TensorList& in) {
    amp::Autocast scope(in[0].device(), dtype);
    return fn(in);
  };
}

TEST(SixteenBits, PassEveryCheckOfAnOp) {
  for (const Op& op : ops())
    for (DType half : kHalves) {
      OpCase mixed = op.of;
      if (!mixed.composite) mixed.composite = op.of.fn;  // in f64
      mixed.fn = in_scope(half, op.of.fn);
      mixed.large_inputs.clear();  // below
      mixed.dtypes = OpDTypes{op.dtypes(half), f32};
      check_op(mixed);
    }
}

enum class Layout { contiguous, permuted, unaligned, every_second };
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::permuted, Layout::unaligned, Layout::every_second};

// Numbers uniform in [low, high) of an input, of `dtype`.
Tensor numbers(const testing::OpInput& input, uint64_t seed, DType dtype, Layout layout) {
  NoGrad guard;
  Generator generator(seed);
  Shape shape = input.shape;
  const bool is_wide = layout == Layout::unaligned || layout == Layout::every_second;
  const int64_t width = shape.back();
  if (is_wide) shape[shape.size() - 1] = 2 * width + 1;
  Tensor x = (rand(shape, f32, Device::cpu(), &generator) * (input.high - input.low) + input.low).to(dtype);
  x = x.to(test_device());
  if (layout == Layout::permuted && x.rank() > 1) x = x.transpose(0, 1).contiguous().transpose(0, 1);
  if (layout == Layout::unaligned) x = slice(x, -1, 1, 1 + width);
  if (layout == Layout::every_second) x = x.slice(-1, 0, 2 * width, 2);
  return x.detach();
}

struct Results {
  Tensor output;
  TensorList grads;
  int casts = 0;
};

Results run(const OpFunction& fn, const TensorList& given, DType half) {
  TensorList in;
  for (const Tensor& x : given) in.push_back(x.alias(x.view()).set_requires_grad());
  CountCasts count;
  Results result;
  {
    amp::Autocast scope(test_device(), half);
    result.output = fn(in);
  }
  Generator generator(7);
  const Tensor dy = randn(result.output.shape(), f32, Device::cpu(), &generator).to(test_device());
  result.grads = grad({result.output}, in, {dy});
  result.casts = count.casts;
  return result;
}

// Small ones in any layout and such as several threads take: the bits of a recorded cast of each input and the operation.
TEST(SixteenBits, HaveTheBitsOfCastAndOp) {
  for (const Op& op : ops())
    for (DType half : kHalves)
      for (const auto* inputs : {&op.of.inputs, &op.of.large_inputs})
        for (Layout layout : kLayouts) {
          if (inputs == &op.of.large_inputs && layout != Layout::contiguous) continue;
          SCOPED_TRACE(detail::join(op.of.name, " of ", half, ", layout ", int(layout)));
          const std::vector<DType> dtypes = op.dtypes(half);
          TensorList given;
          for (size_t i = 0; i < inputs->size(); ++i)
            given.push_back(numbers((*inputs)[i], i, dtypes[i], layout));
          const Results got = run(op.of.fn, given, half);
          const Results want = run(
              [&](const TensorList& in) {
                TensorList wide;
                for (const Tensor& x : in) wide.push_back(x.to(f32));
                return op.of.fn(wide);
              },
              given, half);
          EXPECT_EQ(got.output.dtype(), f32);
          EXPECT_TRUE(same_bits(got.output.detach(), want.output.detach())) << "output";
          for (size_t i = 0; i < given.size(); ++i) {
            EXPECT_EQ(got.grads[i].dtype(), dtypes[i]) << "gradient " << i;
            EXPECT_TRUE(same_bits(got.grads[i].contiguous(), want.grads[i].contiguous())) << "gradient " << i;
          }
          EXPECT_EQ(got.casts, 0);
        }
}

TEST(SixteenBits, AreWhatIsKeptForBackward) {
  for (const Op& op : ops()) {
    TensorList given;
    for (size_t i = 0; i < op.of.large_inputs.size(); ++i)
      given.push_back(
          numbers(op.of.large_inputs[i], i, op.dtypes(bf16)[i], Layout::contiguous).set_requires_grad());
    Allocator& memory = allocator(test_device());
    amp::Autocast scope(test_device(), bf16);
    const size_t before = memory.stats().held;
    memory.reset_peaks();
    const Tensor y = op.of.fn(given);
    const size_t result = size_t(y.numel()) * 4, copy = size_t(given[0].numel()) * 4, little = 16384;
    auto of_input = [&](double tensors) { return size_t(tensors * double(copy)); };
    EXPECT_LT(memory.stats().peak_held - before,
              op.results * result + of_input(op.made_of_input) + copy / 2 + little)
        << op.of.name << " makes a copy";
    EXPECT_LE(memory.stats().held - before, (1 + op.kept) * result + of_input(op.kept_of_input) + little)
        << op.of.name << " keeps a copy";
  }
}

TEST(SixteenBits, DifferentiateTwice) {
  for (const Op& op : ops())
    for (DType half : kHalves) {
      auto penalty = [&](bool casts) {
        TensorList in, wide;
        for (size_t i = 0; i < op.of.inputs.size(); ++i)
          in.push_back(
              numbers(op.of.inputs[i], i, op.dtypes(half)[i], Layout::contiguous).set_requires_grad());
        for (const Tensor& x : in) wide.push_back(casts ? x.to(f32) : x);
        Tensor y;
        {
          amp::Autocast scope(test_device(), half);
          y = op.of.fn(wide);
        }
        Generator generator(7);
        const Tensor dy = randn(y.shape(), f32, Device::cpu(), &generator).to(test_device());
        const Tensor dx = grad({y}, {in[0]}, {dy}, {.create_graph = true})[0];
        EXPECT_EQ(dx.dtype(), op.dtypes(half)[0]);
        if (!dx.requires_grad()) return dx;
        const Tensor twice = grad({sum(square(dx.to(f32)))}, {in[0]}, {}, {.allow_unused = true})[0];
        return twice.defined() ? twice : dx;
      };
      const double bound =
          op.twice_in_parts ? 16 * testing::unit_roundoff(half) : 64 * testing::unit_roundoff(f32);
      EXPECT_TRUE(is_close(penalty(false), penalty(true), bound)) << op.of.name << " of " << half;
    }
}

// A leaf of 16 bits that wants its gradient in f32 gets what the kernel computed, not rounded on its way.
TEST(SixteenBits, GiveAMainGradientThatIsNotRounded) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& x) { return exp(x); },
      [](const Tensor& x) {
        return square(interpolate(x, {7, 9}));
      }};
  for (DType half : kHalves)
    for (size_t i = 0; i < functions.size(); ++i) {
      const Tensor x =
          numbers({{2, 3, 5, 7}, -2, 2}, 1, half, Layout::contiguous).set_requires_grad().set_grad_dtype(f32);
      const Tensor wide = x.detach().to(f32).set_requires_grad();
      amp::Autocast scope(test_device(), half);
      sum(functions[i](x)).backward();
      sum(functions[i](wide)).backward();
      EXPECT_TRUE(same_bits(x.grad(), wide.grad())) << half << ", function " << i;
    }
}

TEST(SixteenBits, AreGivenBackOutsideOfAScope) {
  for (const Op& op : ops()) {
    TensorList given;
    for (size_t i = 0; i < op.of.inputs.size(); ++i)
      given.push_back(numbers(op.of.inputs[i], i, bf16, Layout::contiguous));
    EXPECT_EQ(op.of.fn(given).dtype(), bf16) << op.of.name;
  }
}

}  // namespace
}  // namespace reprise
