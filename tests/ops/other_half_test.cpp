// Tensors of f16 in a scope of autocast to bf16, and the other way round: products take them in the scope's dtype, as PyTorch's, what
// computes in f32 reads them, and what follows its input keeps their dtype. With recompute in both modes, to the bit.
#include <functional>
#include <string>
#include <vector>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/losses.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::kModes;
using testing::same_bits;
using testing::test_device;

constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;

Tensor random(const Shape& shape, uint64_t seed, DType dtype = f32) {
  Generator generator(seed);
  return randn(shape, f32, Device::cpu(), &generator).to(dtype).to(test_device()).detach();
}

struct Op {
  std::string name;
  Shape shape;                                            ///< of x
  std::function<Tensor(const Tensor& x)> fn;              ///< in a scope to the other half type
  std::function<DType(DType of_scope, DType of_x)> into;  ///< the dtype of the result
  /// The same outside of a scope, with casts written by hand.
  std::function<Tensor(const Tensor& x, DType of_scope)> by_hand;
  double bound = 0;  ///< of the gradient, in roundings of its dtype; 0: the same bits
};

DType of_scope(DType scope, DType) { return scope; }
DType always_f32(DType, DType) { return f32; }
DType of_x(DType, DType x) { return x; }

Op product(const char* name, const Shape& shape, const Shape& of_weight,
           const std::function<Tensor(const Tensor& x, const Tensor& weight)>& f) {
  const Tensor weight = random(of_weight, 1);
  return {name, shape, [=](const Tensor& x) { return f(x, weight); }, of_scope,
          [=](const Tensor& x, DType scope) { return f(x.to(scope), weight.to(scope)); }};
}

Op in_f32(const char* name, const std::function<Tensor(const Tensor& x)>& f, double bound = 0) {
  return {name, {6, 5}, f, always_f32, [=](const Tensor& x, DType) { return f(x.to(f32)); }, bound};
}

std::vector<Op> ops() {
  std::vector<Op> all = {
      product("linear", {6, 5}, {7, 5}, [](auto& x, auto& w) { return linear(x, w); }),
      product("matmul", {6, 5}, {5, 4}, [](auto& x, auto& w) { return matmul(x, w); }),
      product("conv2d", {2, 3, 5, 5}, {4, 3, 3, 3}, [](auto& x, auto& w) { return conv2d(x, w); }),
      product("attention", {1, 2, 5, 8}, {1, 2, 5, 8},
              [](auto& x, auto& kv) { return attention(x, kv, kv); }),
      in_f32("softmax", [](auto& x) { return softmax(x); }),
      in_f32("sum", [](auto& x) { return sum(x, {0}); }),
      in_f32("exp", [](auto& x) { return exp(x); }),
      in_f32("logsumexp", [](auto& x) { return logsumexp(x, {-1}); }),
      in_f32("norm", [](auto& x) { return norm(x, {-1}); }),
  };
  const Tensor gamma = random({5}, 2), beta = random({5}, 3), target = random({6, 5}, 4, bf16);
  all.push_back(in_f32("layer_norm", [=](auto& x) { return layer_norm(x, gamma, beta); }));
  all.push_back(in_f32("rms_norm", [=](auto& x) { return rms_norm(x, gamma); }));
  for (DType of_target : {bf16, f16, f32}) {
    const Tensor t = target.to(of_target);
    auto as_x = [t](const Tensor& x) {
      return x.dtype() == f32 ? t.to(f32) : t;
    };  // outside of a scope dtypes are one
    all.push_back(in_f32("mse_loss", [=](auto& x) { return mse_loss(x, as_x(x)); }));
    all.push_back(in_f32("bce_with_logits", [=](auto& x) { return bce_with_logits(x, as_x(x)); }));
    all.push_back(in_f32("kl_div", [=](auto& x) { return kl_div(x, as_x(x), {.log_target = true}); }));
  }
  const Tensor classes = Tensor::from<int64_t>({4, 0, 2, 2, 1, 3}, {6}, test_device());
  all.push_back(in_f32(
      "cross_entropy", [=](auto& x) { return cross_entropy(x, classes); }, 2));
  const Tensor other = random({6, 5}, 5);
  for (DType scope : {bf16, f16}) {
    const Tensor y = other.to(scope);
    all.push_back(
        {"a product of elements",
         {6, 5},
         [=](const Tensor& x) { return x * y; },
         [scope](DType, DType x) { return x == scope ? x : f32; },
         [=](const Tensor& x, DType) { return x.dtype() == scope ? x * y : x.to(f32) * y.to(f32); }});
  }
  all.push_back(
      {"matmul of two",
       {6, 5},
       [](const Tensor& x) { return matmul(x, transpose(x, 0, 1)); },
       of_scope,
       [](const Tensor& x, DType scope) { return matmul(x.to(scope), transpose(x, 0, 1).to(scope)); }});
  all.push_back({"relu",
                 {6, 5},
                 [](const Tensor& x) { return relu(x); },
                 of_x,
                 [](const Tensor& x, DType) { return relu(x); }});
  return all;
}

struct Result {
  Tensor y, dx;
};

Result run(const Tensor& given, const std::function<Tensor(const Tensor& x)>& fn) {
  const Tensor x = given.alias(given.view()).set_requires_grad();
  const Tensor y = fn(x);
  y.backward(random(y.shape(), 7, y.dtype()));
  return {y.detach(), x.grad()};
}

TEST(OtherHalf, IsCastAsTheTableSays) {
  for (const Op& op : ops())
    for (DType scope_dtype : {bf16, f16}) {
      const DType dtype = scope_dtype == bf16 ? f16 : bf16;
      SCOPED_TRACE(detail::join(op.name, " of ", dtype));
      auto in_scope = [&](const Tensor& x) {
        amp::Autocast scope(test_device(), scope_dtype);
        return op.fn(x);
      };
      const Tensor x = random(op.shape, 6, dtype);
      const Result got = run(x, in_scope),
                   want = run(x, [&](const Tensor&in) { return op.by_hand(in, scope_dtype); });
      EXPECT_EQ(got.y.dtype(), op.into(scope_dtype, dtype));
      EXPECT_EQ(got.dx.dtype(), dtype);
      EXPECT_TRUE(same_bits(got.y, want.y)) << "result";
      if (op.bound == 0)
        EXPECT_TRUE(same_bits(got.dx, want.dx)) << "gradient";
      else
        EXPECT_TRUE(testing::is_close(got.dx, want.dx, op.bound * testing::unit_roundoff(dtype)))
            << "gradient";
      for (CheckpointMode mode : kModes) {
        CheckpointOptions options{.mode = mode};
        if (mode == CheckpointMode::non_reentrant) options.determinism = Determinism::values;
        const Result again = run(x, [&](const Tensor& in) {
          amp::Autocast scope(test_device(), scope_dtype);
          return checkpoint([&](const Tensor& of_region) { return op.fn(of_region); }, in, options);
        });
        EXPECT_TRUE(same_bits(again.y, got.y)) << testing::name_of(mode);
        EXPECT_TRUE(same_bits(again.dx, got.dx)) << testing::name_of(mode);
      }
    }
}

}  // namespace
}  // namespace reprise
