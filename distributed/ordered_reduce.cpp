#include "reprise/distributed/ordered_reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace reprise::distributed {
namespace {

constexpr int64_t block = 1024;  // elements: a stack of blocks stays in the first cache

template <class T>
constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// What T is added in. Unsigned: integers wrap around.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<BFloat16> {
  using type = float;
};
template <>
struct WideOf<Float16> {
  using type = float;
};
template <>
struct WideOf<int64_t> {
  using type = uint64_t;
};
template <>
struct WideOf<int32_t> {
  using type = uint32_t;
};

template <ReduceOp op, class T>
T combine(T a, T b) {
  if constexpr (std::is_floating_point_v<T> && (op == ReduceOp::min || op == ReduceOp::max)) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  if constexpr (op == ReduceOp::min) return b < a ? b : a;
  if constexpr (op == ReduceOp::max) return a < b ? b : a;
  return T(a + b);
}

// Signed integers compare as what they are and add as unsigned ones.
template <ReduceOp op, class T>
using Arithmetic = std::conditional_t<op == ReduceOp::sum || op == ReduceOp::mean, typename WideOf<T>::type,
                                      std::conditional_t<is_half<T>, float, T>>;

template <ReduceOp op, class T>
class BlockMachine {
  using A = Arithmetic<op, T>;
  using Block = std::array<A, size_t(block)>;

 public:
  BlockMachine(std::span<const void* const> sources, std::span<const TreeStep> steps)
      : sources_(sources), steps_(steps), stack_(sources.size()) {}

  // The result of elements begin ... begin + n - 1.
  const A* run(int64_t begin, int64_t n) {
    size_t depth = 0;
    for (const TreeStep& step : steps_) {
      if (step.kind == TreeStep::Kind::push) {
        load(static_cast<const T*>(sources_[size_t(step.node)]) + begin, stack_[depth++], n);
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
      a[size_t(i)] = combine<op>(a[size_t(i)], b[size_t(i)]);
      if constexpr (is_half<T>) a[size_t(i)] = A(T(a[size_t(i)]));
    }
  }

  std::span<const void* const> sources_;
  std::span<const TreeStep> steps_;
  std::vector<Block> stack_;
};

template <ReduceOp op, class T>
void reduce(std::span<const void* const> sources, std::span<const TreeStep> steps, int64_t divisor, void* out,
            int64_t count) {
  BlockMachine<op, T> machine(sources, steps);
  T* to = static_cast<T*>(out);
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t n = std::min(block, count - begin);
    const auto* result = machine.run(begin, n);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (op == ReduceOp::mean)
        to[begin + i] = T(result[i] / Arithmetic<op, T>(divisor));
      else
        to[begin + i] = T(result[i]);
    }
  }
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "mean", "min", "max"};
  return names[size_t(op)];
}

void check_reducible(std::string_view operation, ReduceOp op, DType dtype) {
  check(op <= ReduceOp::max, operation, ": there is no reduction ", int(op));
  check(dtype != DType::boolean, operation, ": bool has no ", name_of(op), "; use u8");
  check(op != ReduceOp::mean || is_floating(dtype), operation, ": the mean of ", dtype,
        " is no integer; use sum, or a floating dtype");
}

void ordered_reduce(DType dtype, ReduceOp op, std::span<const void* const> sources,
                    std::span<const TreeStep> steps, int64_t divisor, void* out, int64_t count) {
  check_reducible("ordered_reduce", op, dtype);
  dispatch_all(dtype, [&]<class T>() {
    switch (op) {
      case ReduceOp::sum:
        return reduce<ReduceOp::sum, T>(sources, steps, divisor, out, count);
      case ReduceOp::mean:
        return reduce<ReduceOp::mean, T>(sources, steps, divisor, out, count);
      case ReduceOp::min:
        return reduce<ReduceOp::min, T>(sources, steps, divisor, out, count);
      case ReduceOp::max:
        return reduce<ReduceOp::max, T>(sources, steps, divisor, out, count);
    }
  });
}

}  // namespace reprise::distributed
