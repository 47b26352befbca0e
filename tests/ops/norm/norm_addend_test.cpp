// Norms whose input has another gradient, as that of the residual beside a block: they add theirs to it in their own pass.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/functional/graph.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype) {
  Generator generator(seed);
  return randn(shape, DType::f32, Device::cpu(), &generator).to(dtype).to(test_device());
}

using Norm = std::function<Tensor(const Tensor& x, const Tensor& gamma)>;
const std::pair<const char*, Norm> kNorms[] = {
    {"layer_norm", [](auto& x, auto& gamma) { return layer_norm(x, gamma, {}); }},
    {"rms_norm", [](auto& x, auto& gamma) { return rms_norm(x, gamma); }}};

struct Pass {
  TensorList grads;
  size_t peak;
};

/// What else uses the norm's input: a sum, whose gradient is the caller's; a product; and what lies in rows beside others, whose gradient
/// has rows that fit no wide accesses.
enum class Beside { sum, product, rows };

Tensor beside(const Tensor& x, Beside kind) {
  if (kind == Beside::sum) return x;
  if (kind == Beside::product) return x * 2.0;
  const Tensor rows = concat({x, numbers({x.size(0), 3}, 5, x.dtype())}, -1);
  return slice(rows * 2.0, -1, 0, x.size(1));
}

// norm(x) and what else uses x, behind a sum that makes x. A hook on the norm's step sees its gradient alone, so that the
// engine adds.
Pass run(const Norm& norm, DType dtype, Beside kind, bool hooked) {
  const Tensor a = numbers({64, 256}, 1, dtype).set_requires_grad(),
               b = numbers({64, 256}, 2, dtype).set_requires_grad(),
               gamma = numbers({256}, 3, dtype).set_requires_grad(), dy = numbers({64, 256}, 4, dtype);
  Tensor x = a + b;
  Tensor normal = norm(x, gamma);
  if (hooked) register_node_hook(normal, [](const TensorList&, const TensorList&) { return TensorList(); });
  Tensor y = normal + beside(x, kind);
  x = {}, normal = {};
  Allocator& memory = allocator(test_device());
  memory.reset_peaks();
  const size_t before = memory.stats().allocated;
  y.backward(dy);
  return {{a.grad(), b.grad(), gamma.grad()}, memory.stats().peak_allocated - before};
}

TEST(NormAddend, HasTheBitsOfTheAdditionItSaves) {
  for (const auto& [name, norm] : kNorms)
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (Beside kind : {Beside::sum, Beside::product, Beside::rows}) {
        const Pass got = run(norm, dtype, kind, false), want = run(norm, dtype, kind, true);
        EXPECT_TRUE(same_bits(got.grads, want.grads)) << name << ", " << dtype << ", beside " << int(kind);
        if (kind == Beside::product) {
          EXPECT_LT(got.peak, want.peak) << name << ", " << dtype << ": a tensor of its own";
        }
      }
}

// What has arrived may be the gradient that the caller gave, or a kept one, which nothing may write to.
TEST(NormAddend, LeavesWhatOthersHoldAlone) {
  for (const auto& [name, norm] : kNorms) {
    const Tensor a = numbers({8, 16}, 1, DType::f32).set_requires_grad(),
                 dy = numbers({8, 16}, 2, DType::f32), copy = dy.clone();
    Tensor kept;
    const Tensor x = a * 3.0, doubled = x * 2.0;
    doubled.register_hook([&](const Tensor& gradient) { return kept = gradient, Tensor(); });
    const Tensor y = norm(x, {}) + x + doubled;
    y.backward(dy);
    EXPECT_TRUE(same_bits(dy, copy) && same_bits(kept, copy)) << name;
  }
}

}  // namespace
}  // namespace reprise
