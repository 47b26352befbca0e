#include "reprise/distributed/data_parallel/bucket_hook.h"

#include "reprise/autograd/grad_mode.h"

namespace reprise::distributed {
namespace {

// Adds all ranks' `wire` into the tensor that is to be the result.
Work begin(GradientBucket& bucket, ProcessGroup& group, const Tensor& wire) {
  const DType dtype = bucket.sums.dtype();
  if (bucket.part_numel == 0) {
    if (wire.dtype() != dtype)
      bucket.finish = [sums = bucket.sums, wire] {
        NoGrad guard;
        Tensor(sums).copy_(wire);
      };
    return group.all_reduce(wire, ReduceOp::sum, bucket.label);
  }
  const Tensor received = Tensor::empty({bucket.part_numel}, wire.dtype(), wire.device());
  bucket.part = received;
  if (wire.dtype() != dtype) {
    MemoryScope scope(MemoryCategory::gradients);
    bucket.part = Tensor::empty({bucket.part_numel}, dtype, wire.device());
    bucket.finish = [part = bucket.part, received] {
      NoGrad guard;
      Tensor(part).copy_(received);
    };
  }
  return group.reduce_scatter(received, wire, ReduceOp::sum, bucket.label);
}

}  // namespace

BucketHook compressed(DType dtype) {
  check(dtype == DType::bf16 || dtype == DType::f16, "compressed: gradients are sent in bf16 or f16, not in ",
        dtype);
  return [dtype](GradientBucket& bucket, ProcessGroup& group) {
    NoGrad guard;
    MemoryScope scope(MemoryCategory::workspace);
    return begin(bucket, group, size_of(bucket.sums.dtype()) == 2 ? bucket.sums : bucket.sums.to(dtype));
  };
}

}  // namespace reprise::distributed
