// Running out of memory at every allocation of a training step: an Error, no leak, and a retry that gives the
// same result.
#include "reprise/autograd/engine.h"
#include "reprise/autograd/node.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::same_bits;

Allocator& cpu() { return allocator(Device::cpu()); }

struct Step {
  Generator generator{3};
  Tensor x = randn({4, 33}, DType::f32, {}, &generator);
  Tensor w = randn({65, 33}, DType::f32, {}, &generator).set_requires_grad();
  Tensor targets = Tensor::from<int64_t>({1, 2, 3, 4}, {4});

  Tensor run() const {
    w.set_grad({});
    cross_entropy(layer_norm(linear(x, w, {}, {.activation = Activation::gelu}), {}, {}), targets).backward();
    return w.grad();
  }
};

TEST(OutOfMemory, AtAnyAllocationOfAStepIsAnErrorWithoutALeakAndARetryWorks) {
  Step step;
  Tensor want = step.run().clone();
  step.w.set_grad({});
  int failures = 0;
  MemoryStats before = cpu().stats();
  int64_t nodes = autograd::live_nodes();
  // With nothing cached, each limit stops the step at another of its allocations.
  for (size_t room = 0; room < 40'000; room += 192) {
    cpu().empty_cache();
    cpu().set_limit(cpu().stats().reserved + room + 1);
    try {
      step.run();
    } catch (const OutOfMemory&) { ++failures; }
    cpu().set_limit(0);
    step.w.set_grad({});
    ASSERT_EQ(cpu().stats().live_blocks, before.live_blocks) << "with room for " << room << " bytes";
    ASSERT_EQ(cpu().stats().allocated, before.allocated);
    ASSERT_EQ(autograd::live_nodes(), nodes);
  }
  EXPECT_GT(failures, 20);
  EXPECT_LT(failures, 208);  // with enough room it runs
  EXPECT_TRUE(same_bits(step.run(), want));
}

}  // namespace
}  // namespace reprise
