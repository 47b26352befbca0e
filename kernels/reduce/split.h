// What reductions check and how they take their views apart, on any device.
#pragma once

#include <array>

#include "reprise/kernels/reduce/reduce.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {

// On the CPU.
inline constexpr int64_t kRowsOfColumns =
    64;                                     ///< in one piece of a reduction by columns: the longest f32 chain
inline constexpr int64_t kLeastWidth = 16;  ///< narrower rows are better read down each column

/// Error unless `reduce` can write x into y.
inline void check_reduction(ReduceOp op, const TensorView& x, const TensorView& y) {
  check(x.rank() == y.rank(), "reduce: ranks differ: ", x.shape, " and ", y.shape);
  for (int dim = 0; dim < x.rank(); ++dim)
    check(y.shape[dim] == x.shape[dim] || y.shape[dim] == 1, "reduce: ", x.shape, " does not reduce to ",
          y.shape);
  DType expected = op == ReduceOp::sum && !is_floating(x.dtype) ? DType::i64 : x.dtype;
  bool widened =
      op == ReduceOp::sum && is_floating(x.dtype) && y.dtype == DType::f32 && x.dtype != DType::f64;
  check(y.dtype == expected || widened, "reduce: writes ", expected, ", the output is ", y.dtype);
}

/// Error unless `argmax` can write that of x into y.
inline void check_argmax(const TensorView& x, const TensorView& y) {
  check(x.rank() >= 1 && y.rank() == x.rank() && y.shape.back() == 1, "argmax: ", x.shape,
        " does not reduce to ", y.shape);
  for (int dim = 0; dim + 1 < x.rank(); ++dim)
    check(x.shape[dim] == y.shape[dim], "argmax: ", x.shape, " does not reduce to ", y.shape);
  check(y.dtype == DType::i64, "argmax: writes i64, the output is ", y.dtype);
  check(y.numel() == 0 || x.shape.back() > 0, "argmax: the last dimension of ", x.shape, " is empty");
}

/// The dimensions of x and y by what happens to them.
struct ReductionSplit {
  TensorView kept, reduced;  // views of x; one element of `kept` and one of `reduced` add up to a place in x
  TensorView y;              // the shape of `kept`
};

inline ReductionSplit split_reduction(const TensorView& x, const TensorView& y) {
  auto pick = [&](const TensorView& view, bool reduced) {
    TensorView out = view;
    out.shape = {};
    out.strides = {};
    for (int dim = 0; dim < x.rank(); ++dim) {
      if ((y.shape[dim] != x.shape[dim]) != reduced) continue;
      out.shape.push_back(x.shape[dim]);
      out.strides.push_back(view.strides[dim]);
    }
    return out;
  };
  return {pick(x, false), pick(x, true), pick(y, false)};
}

/// Merges what can be merged, and walks both kinds of dimensions in the order of x in memory.
inline void simplify(ReductionSplit& parts) {
  std::array<TensorView, 2> kept = {parts.y, parts.kept};
  order_like_last(kept);
  collapse(kept);
  parts.y = kept[0];
  parts.kept = kept[1];
  order_like_last({&parts.reduced, 1});
  collapse({&parts.reduced, 1});
}

/// The view whose leading dimensions are those of `outer` and whose last are those of `inner`.
inline TensorView join_views(const TensorView& outer, const TensorView& inner) {
  TensorView out = outer;
  out.shape = {};
  out.strides = {};
  for (const TensorView* part : {&outer, &inner})
    for (int dim = 0; dim < part->rank(); ++dim) {
      if (part->shape[dim] == 1) continue;  // so that the ranks together do not pass that of x
      out.shape.push_back(part->shape[dim]);
      out.strides.push_back(part->strides[dim]);
    }
  return out;
}

}  // namespace reprise::kernels
