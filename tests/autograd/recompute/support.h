// What recompute tests share: both modes, a run of a function with and without a checkpoint, counting calls.
#pragma once

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/autograd/recompute/update_state.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {

inline constexpr CheckpointMode kModes[] = {CheckpointMode::non_reentrant, CheckpointMode::reentrant};
inline const char* name_of(CheckpointMode mode) {
  return mode == CheckpointMode::reentrant ? "reentrant" : "non-reentrant";
}

/// Normal numbers that depend on the seed alone.
inline Tensor numbers(const Shape& shape, uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, DType::f32, Device::cpu(), &generator).to(test_device());
}
inline Tensor leaf(const Shape& shape, uint64_t seed = 1) { return numbers(shape, seed).set_requires_grad(); }

/// Two thousand; fewer where each operation costs the emulator's guard a walk over all memory.
inline int64_t many() { return test_device().is_cuda() ? 200 : 2000; }

/// Counts nodes and blocks of memory at its start, and expects as many at its end.
class NoLeaks {
 public:
  NoLeaks() : nodes_(autograd::live_nodes()), blocks_(allocator(test_device()).stats().live_blocks) {}
  ~NoLeaks() {
    EXPECT_EQ(autograd::live_nodes(), nodes_) << "graph nodes were leaked";
    EXPECT_EQ(allocator(test_device()).stats().live_blocks, blocks_) << "tensors were leaked";
  }

 private:
  int64_t nodes_, blocks_;
};

/// What a user may give to checkpoint: tensors among other things.
struct Batch {
  Tensor values, mask;
  int step = 0;
};
void for_each_tensor(Batch& batch, const auto& visit) {
  visit(batch.values, "values");
  visit(batch.mask, "mask");
}

}  // namespace reprise::testing
