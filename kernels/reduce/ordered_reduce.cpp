// The machine of ordered_reduce on the CPU: each step is a loop over a block of elements.
#include "reprise/kernels/reduce/ordered_reduce.h"

#include <array>
#include <vector>

#include "reprise/core/no_compute.h"
#include "reprise/kernels/reduce/ordered_formula.h"

namespace reprise::kernels {
namespace {

constexpr int64_t block = 1024;  // elements: a stack of blocks stays in the first cache

template <ReduceOp op, class T>
class BlockMachine {
  using A = Arithmetic<op, T>;
  using Block = std::array<A, size_t(block)>;

 public:
  BlockMachine(std::span<const TensorView> sources, std::span<const TreeStep> steps, int deepest)
      : sources_(sources), steps_(steps), stack_(size_t(deepest)) {}

  // The result of elements begin ... begin + n - 1.
  const A* run(int64_t begin, int64_t n) {
    size_t depth = 0;
    for (const TreeStep& step : steps_) {
      if (step.kind == TreeStep::Kind::push) {
        load(sources_[size_t(step.node)].as<T>() + begin, stack_[depth++], n);
        continue;
      }
      --depth;
      add(stack_[depth - 1], stack_[depth], n);
    }
    return stack_[0].data();
  }

 private:
  static void load(const T* from, Block& to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[size_t(i)] = A(from[i]);
  }

  static void add(Block& a, const Block& b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      a[size_t(i)] = combined<op>(a[size_t(i)], b[size_t(i)]);
      if constexpr (is_half<T>) a[size_t(i)] = A(T(a[size_t(i)]));
    }
  }

  std::span<const TensorView> sources_;
  std::span<const TreeStep> steps_;
  std::vector<Block> stack_;
};

void ordered_reduce_cpu(const Stream&, std::span<const TensorView> sources, std::span<const TreeStep> steps,
                        ReduceOp op, int64_t divisor, const TensorView& out) {
  const int deepest = check_ordered_reduce(sources, steps, op, divisor, out);
  const int64_t count = out.numel();
  if (NoCompute::is_on() && count > block)
    return;  // groups run it, beside the computation: it is no parallel_for
  dispatch_ordered(op, out.dtype, [&]<ReduceOp the_op, class T>() {
    BlockMachine<the_op, T> machine(sources, steps, deepest);
    T* to = out.as<T>();
    for (int64_t begin = 0; begin < count; begin += block) {
      const int64_t n = std::min(block, count - begin);
      const auto* result = machine.run(begin, n);
      if (divisor == 1)
        for (int64_t i = 0; i < n; ++i) to[begin + i] = T(result[i]);
      else
        for (int64_t i = 0; i < n; ++i) to[begin + i] = T(result[i] / Arithmetic<the_op, T>(divisor));
    }
  });
}

}  // namespace

decltype(ordered_reduce) ordered_reduce{"ordered_reduce", ordered_reduce_cpu};

}  // namespace reprise::kernels
