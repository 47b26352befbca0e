// What ordered_reduce checks and computes on any device.
#pragma once

#include <algorithm>
#include <type_traits>

#include "reprise/kernels/reduce/ordered_reduce.h"

namespace reprise::kernels {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// What numbers of dtype T are combined in: half types in f32. Signed integers compare as what they are and add as
/// unsigned ones, which wrap around.
template <ReduceOp op, class T>
using Arithmetic = std::conditional_t<
    is_half<T>, float,
    std::conditional_t<op != ReduceOp::sum, T,
                       std::conditional_t<std::is_same_v<T, int64_t>, uint64_t,
                                          std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, T>>>>;

template <ReduceOp op, class T>
[[gnu::always_inline]] constexpr inline T combined(T a, T b) {
  if constexpr (op == ReduceOp::sum) return T(a + b);
  if (a != a) return a;
  if (b != b) return b;
  if constexpr (op == ReduceOp::min) return b < a ? b : a;
  return a < b ? b : a;
}

/// Checks the arguments; the most numbers that the machine's stack holds.
inline int check_ordered_reduce(std::span<const TensorView> sources, std::span<const TreeStep> steps,
                                ReduceOp op, int64_t divisor, const TensorView& out) {
  constexpr auto name = "ordered_reduce";
  check(out.dtype != DType::boolean, name, ": bool has no sums; use u8");
  check(divisor >= 1 && (divisor == 1 || (op == ReduceOp::sum && is_floating(out.dtype))), name,
        ": the divisor is ", divisor, ", which is for sums of floating numbers; they are ", out.dtype);
  for (const TensorView& source : sources)
    check(source.dtype == out.dtype && source.numel() == out.numel() && source.is_contiguous() &&
              out.is_contiguous(),
          name, ": a source is ", source.dtype, source.shape, ", out is ", out.dtype, out.shape,
          "; both are contiguous and of one size");
  int pushed = 0, depth = 0, deepest = 0;
  for (const TreeStep& step : steps) {
    const bool pushes = step.kind == TreeStep::Kind::push;
    check(pushes ? step.node == pushed : depth >= 2, name, ": step ", &step - steps.data(), " of ",
          steps.size(), pushes ? " pushes no next source" : " combines less than two numbers");
    depth += pushes ? 1 : -1;
    pushed += pushes;
    deepest = std::max(deepest, depth);
  }
  check(depth == 1 && size_t(pushed) == sources.size(), name, ": ", steps.size(), " steps push ", pushed,
        " of ", sources.size(), " sources and leave ", depth, " results");
  return deepest;
}

/// Calls body.operator()<op, T>().
template <class Body>
void dispatch_ordered(ReduceOp op, DType dtype, Body&& body) {
  dispatch_all(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      switch (op) {
        case ReduceOp::sum:
          return body.template operator()<ReduceOp::sum, T>();
        case ReduceOp::max:
          return body.template operator()<ReduceOp::max, T>();
        case ReduceOp::min:
          return body.template operator()<ReduceOp::min, T>();
      }
    }
  });
}

}  // namespace reprise::kernels
