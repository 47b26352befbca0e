#include "reprise/distributed/data_parallel/bucket_hook.h"

#include "reprise/autograd/grad_mode.h"

namespace reprise::distributed {

BucketHook compressed(DType dtype) {
  check(dtype == DType::bf16 || dtype == DType::f16, "compressed: gradients are sent in bf16 or f16, not in ",
        dtype);
  return [dtype](GradientBucket& bucket, ProcessGroup& group) {
    NoGrad guard;
    const Tensor sums = bucket.sums;
    if (size_of(sums.dtype()) == 2) return group.all_reduce(sums, ReduceOp::sum, bucket.label);
    MemoryScope scope(MemoryCategory::workspace);
    const Tensor wire = sums.to(dtype);
    bucket.finish = [sums, wire] {
      NoGrad writes;
      sums.copy_(wire);
    };
    return group.all_reduce(wire, ReduceOp::sum, bucket.label);
  };
}

}  // namespace reprise::distributed
