// Operations that write the dtype they are asked for, against the operation and a cast: the same bits, forward and
// backward.
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/attention/rotary.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::is_close;
using testing::same_bits;
using testing::test_device;

constexpr DType halves[] = {DType::bf16, DType::f16};

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  Generator generator(seed);
  return randn(shape, DType::f32, Device::cpu(), &generator).to(dtype).to(test_device());
}

/// Of x (..., C) and a vector (C).
struct Op {
  const char* name;
  std::function<TensorList(const Tensor& x, const Tensor& vector, const ResultOptions& result)> call;
};

// Of an even number of channels, by what the vector holds.
Tensor turned(const Tensor& x, const Tensor& vector, RotaryPairs pairs, const ResultOptions& result) {
  const int64_t half = x.size(-1) / 2;
  return rotary(slice(x, -1, 0, 2 * half), slice(vector, 0, 0, half), slice(vector, 0, half, 2 * half),
                {.pairs = pairs, .out = result.out});
}

const std::vector<Op>& ops() {
  static const std::vector<Op> all = {
      {"layer_norm",
       [](auto& x, auto& v, auto& result) { return TensorList{layer_norm(x, v, v * 0.5, 1e-5, result)}; }},
      {"layer_norm of x alone",
       [](auto& x, auto&, auto& result) { return TensorList{layer_norm(x, {}, {}, 1e-5, result)}; }},
      {"rms_norm", [](auto& x, auto& v, auto& result) { return TensorList{rms_norm(x, v, 1e-5, result)}; }},
      {"add_layer_norm",
       [](auto& x, auto& v, auto& result) {
         const SumAndNorm both = add_layer_norm(x, x * 0.25, v, v * 0.5, 1e-5, result);
         return TensorList{both.norm, both.sum};
       }},
      {"add_rms_norm",
       [](auto& x, auto& v, auto& result) {
         const SumAndNorm both = add_rms_norm(x, x * 0.25, v, 1e-5, result);
         return TensorList{both.norm, both.sum};
       }},
      {"softmax", [](auto& x, auto&, auto& result) { return TensorList{softmax(x, result)}; }},
      {"log_softmax", [](auto& x, auto&, auto& result) { return TensorList{log_softmax(x, result)}; }},
      {"embedding",
       [](auto& x, auto&, auto& result) {
         const Tensor table = reshape(x, {-1, x.size(-1)});
         const Tensor rows = Tensor::from<int64_t>({0, 2, 1, 2, 2, 0}, {2, 3}).to(test_device());
         return TensorList{embedding(table, rows, result)};
       }},
      {"rotary",
       [](auto& x, auto& v, auto& result) { return TensorList{turned(x, v, RotaryPairs::halves, result)}; }},
      {"rotary of adjacent pairs",
       [](auto& x, auto& v, auto& result) {
         return TensorList{turned(x, v, RotaryPairs::adjacent, result)};
       }},
  };
  return all;
}

struct Results {
  TensorList outputs, grads;
};

/// The first output's gradient has its dtype, random; the others' are f32.
Results run(const Tensor& x, const Tensor& vector, const std::function<TensorList(const TensorList&)>& call) {
  const TensorList in = {x.detach().set_requires_grad(), vector.detach().set_requires_grad()};
  Results result;
  result.outputs = call(in);
  TensorList gradients;
  for (size_t i = 0; i < result.outputs.size(); ++i)
    gradients.push_back(numbers(result.outputs[i].shape(), 11 + i, result.outputs[i].dtype()));
  backward(result.outputs, gradients);
  result.grads = {in[0].grad(), in[1].grad()};
  return result;
}

void expect_same(const Results& got, const Results& want, const std::string& what) {
  EXPECT_TRUE(same_bits(got.outputs, want.outputs)) << what;
  EXPECT_TRUE(same_bits(got.grads, want.grads)) << what;
}

// Rows that packs fit and rows that they do not, several cuts, and rows that lie apart.
TensorList inputs() {
  TensorList all;
  for (const Shape& shape : {Shape{3, 5}, Shape{7, 65}, Shape{2, 3, 264}, Shape{4, 1032}})
    all.push_back(numbers(shape, 1));
  all.push_back(slice(numbers({6, 72}, 1), 1, 3, 68));
  all.push_back(transpose(numbers({3, 4, 24}, 1), 0, 1));
  return all;
}

TEST(FusedCast, HasTheBitsOfOpAndCast) {
  for (const Op& op : ops())
    for (DType out : halves)
      for (const Tensor& x : inputs()) {
        const Tensor vector = numbers({x.size(-1)}, 2);
        const Results got =
            run(x, vector, [&](const TensorList& in) { return op.call(in[0], in[1], {.out = out}); });
        const Results want = run(x, vector, [&](const TensorList& in) {
          TensorList outputs = op.call(in[0], in[1], {});
          outputs[0] = outputs[0].to(out);
          return outputs;
        });
        EXPECT_EQ(got.outputs[0].dtype(), out);
        expect_same(got, want, detail::join(op.name, " to ", out, " of ", x.shape()));
      }
}

// Rows of 16 bits give f32, or the other 16 bits, as a cast before the operation would have them; those of a table, as
// one behind it.
TEST(FusedCast, OfRowsOfSixteenBitsHasTheBitsOfCastAndOp) {
  for (const Op& op : ops())
    for (DType from : halves)
      for (DType out : {DType::f32, from == DType::bf16 ? DType::f16 : DType::bf16}) {
        const std::string_view name = op.name;
        if (name.starts_with("add_")) continue;  // sums of 16 bits are rounded first
        const Tensor x = numbers({7, 72}, 1, from), vector = numbers({72}, 2, from);
        amp::Autocast scope(test_device(), DType::bf16);
        const Results got = run(x, vector, [&](const TensorList& in) {
          return op.call(in[0], in[1].to(DType::f32), {.out = out});
        });
        const Results want = run(x, vector, [&](const TensorList& in) {
          if (name == "embedding") return TensorList{op.call(in[0], in[1], {})[0].to(out)};
          return op.call(in[0].to(DType::f32), in[1].to(DType::f32), {.out = out});
        });
        expect_same(got, want, detail::join(op.name, " of ", from, " to ", out));
      }
}

// One pass writes an f32 sum and a norm of 16 bits; x and the residual have dtypes of their own.
TEST(FusedCast, SumsOfANormMixUnderAutocast) {
  for (DType of_x : {DType::f32, DType::bf16, DType::f16})
    for (DType of_residual : {DType::f32, DType::bf16, DType::f16})
      for (DType out : {DType::f32, DType::bf16}) {
        const Tensor x = numbers({5, 24}, 1, of_x), residual = numbers({5, 24}, 2, of_residual);
        const Tensor vector = numbers({24}, 3);
        auto both = [&](bool fused) {
          const TensorList in = {x.detach().set_requires_grad(), residual.detach().set_requires_grad(),
                                 vector.detach().set_requires_grad()};
          amp::Autocast scope(test_device(), DType::bf16);
          SumAndNorm y;
          if (fused)
            y = add_layer_norm(in[0], in[1], in[2], {}, 1e-5, {.out = out});
          else
            y.sum = in[0] + in[1], y.norm = layer_norm(y.sum, in[2], {}, 1e-5, {.out = out});
          backward({y.sum, y.norm}, {numbers({5, 24}, 4, y.sum.dtype()), numbers({5, 24}, 5, out)});
          return Results{{y.sum, y.norm}, {in[0].grad(), in[1].grad(), in[2].grad()}};
        };
        const Results got = both(true);
        EXPECT_EQ(got.outputs[0].dtype(), promote(of_x, of_residual));
        EXPECT_EQ(got.outputs[1].dtype(), out);
        expect_same(got, both(false), detail::join(of_x, " + ", of_residual, " to ", out));
      }
}

TEST(FusedCast, DifferentiatesTwice) {
  for (const Op& op : ops()) {
    const Tensor x = numbers({4, 9}, 1), vector = numbers({9}, 2);
    auto penalty = [&](DType out, bool fused) {
      const Tensor in = x.detach().set_requires_grad();
      Tensor y = op.call(in, vector, fused ? ResultOptions{out} : ResultOptions())[0];
      if (!fused) y = y.to(out);
      const Tensor dx = grad({y}, {in}, {numbers(y.shape(), 3, out)}, {.create_graph = true})[0];
      if (!dx.requires_grad()) return dx;  // of a linear operation
      return grad({sum(square(dx))}, {in})[0];
    };
    for (DType out : halves)  // the same roundings, but for a composite's order of sums
      EXPECT_TRUE(is_close(penalty(out, true), penalty(out, false), 64 * testing::unit_roundoff(DType::f32)))
          << op.name << " to " << out;
  }
}

TEST(FusedCast, RefusesDtypesThatDoNotFit) {
  const Tensor x = numbers({2, 4}, 1), wide = x.to(DType::f64);
  expect_error([&] { layer_norm(x, {}, {}, 1e-5, {.out = DType::f64}); },
               "layer_norm: out is f64, which does not fit an input in f32");
  expect_error([&] { rms_norm(wide, {}, 1e-5, {.out = DType::bf16}); },
               "rms_norm: out is bf16, which does not fit an input in f64");
  expect_error([&] { softmax(x, {.out = DType::i64}); },
               "softmax: out is i64, which does not fit an input in f32");
  expect_error([&] { embedding(x, zeros({1}, DType::i64, test_device()), {.out = DType::f64}); },
               "embedding: out is f64, which does not fit an input in f32");
}

}  // namespace
}  // namespace reprise
