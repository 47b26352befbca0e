// The machine of ordered_reduce on CUDA: a thread has a stack of its own and runs all steps for one element.
//
// Bytes: each source is read once and the result written once, n + 1 times their size for n sources; the threads of a warp
// lie side by side in all of them. Operations: n - 1 per element, and nothing that depends on the number of blocks.
#include <cstdint>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/reduce/ordered_formula.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;
constexpr int deepest = 40;  // of a binary tree's stack: enough for 2^39 leaves

struct Source {
  const void* data;
  int32_t combines;  ///< how often the last two are combined once it is pushed
};

struct Sources {
  static constexpr int capacity = int(kTableBytes / int64_t(sizeof(Source))) - 1;
  int count = 0;
  Source at[capacity];
};

template <ReduceOp op, class T>
__global__ void __launch_bounds__(block_threads)
    ordered_reduce_kernel(const __grid_constant__ Sources sources, int64_t divisor, Element<T>* out,
                          int64_t count) {
  using A = Arithmetic<op, T>;
  using E = Element<T>;
  const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= count) return;
  A stack[deepest];
  int depth = 0;
  for (int k = 0; k < sources.count; ++k) {
    A last = to<A>(static_cast<const E*>(sources.at[k].data)[i]);
    for (int c = 0; c < sources.at[k].combines; ++c) {
      last = combined<op>(stack[--depth], last);
      if constexpr (is_half<T>) last = to<A>(from<E>(last));
    }
    stack[depth++] = last;
  }
  out[i] = from<E>(divisor == 1 ? stack[0] : A(stack[0] / A(divisor)));
}

Sources sources_of(std::span<const TensorView> views, std::span<const TreeStep> steps) {
  Sources sources{};
  for (const TreeStep& step : steps) {
    if (step.kind == TreeStep::Kind::add)
      ++sources.at[sources.count - 1].combines;
    else
      sources.at[sources.count++] = {views[size_t(step.node)].data, 0};
  }
  return sources;
}

void ordered_reduce_cuda(const Stream& stream, std::span<const TensorView> sources,
                         std::span<const TreeStep> steps, ReduceOp op, int64_t divisor,
                         const TensorView& out) {
  const int depth = check_ordered_reduce(sources, steps, op, divisor, out);
  check(depth <= deepest && sources.size() <= size_t(Sources::capacity), "ordered_reduce: ", sources.size(),
        " sources, of which ", depth, " wait at once; a launch takes ", Sources::capacity, " and ", deepest);
  const int64_t count = out.numel();
  if (count == 0) return;
  const Sources table = sources_of(sources, steps);
  dispatch_ordered(op, out.dtype, [&]<ReduceOp the_op, class T>() {
    simt::launch({.name = "ordered_reduce",
                  .grid = grid_of("ordered_reduce", ceil_div(count, int64_t(block_threads))),
                  .block = block_threads,
                  .stream = stream},
                 ordered_reduce_kernel<the_op, T>, table, divisor, data_of<T>(out), count);
  });
}

const OnCuda ordered_reduce_on_cuda{ordered_reduce, ordered_reduce_cuda};

}  // namespace
}  // namespace reprise::kernels
