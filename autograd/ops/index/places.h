// Places: what the items between the brackets mean for a tensor of some shape: a view of it, and rows of that view.
#pragma once

#include <vector>

#include "reprise/autograd/ops/index/indexing.h"

namespace reprise::autograd {

/// A step from a tensor to a view of it.
struct ViewStep {
  enum class Kind : uint8_t { select, slice, unsqueeze } kind;
  int64_t dim = 0;
  int64_t begin = 0, end = 0, step = 1;  ///< of a slice; a selected place is `begin`
};
inline void for_each_attribute(const ViewStep& step, const auto& visit) {
  visit(step.kind), visit(step.dim), visit(step.begin), visit(step.end), visit(step.step);
}

struct Places {
  std::vector<ViewStep> steps{};
  Shape part{};  ///< the shape of that view
  // With masks or places among the items. In the view, permuted by `order`, the first dimensions are those that they stand for, and
  // are taken as one, of `count` elements; `rest` are the others.
  Tensor rows{};  ///< i64, places in that one; undefined: there are none
  Dims order{};
  int64_t count = 1;
  Shape rest{};
  int result_dim = 0;  ///< where the dimensions of `rows` stand in the result

  /// What the items say of `x`. Error naming `op` where they do not fit.
  static Places resolve(const char* op, const Tensor& x, const std::vector<Index>& items);

  /// The view of x.
  Tensor part_of(const Tensor& x) const;
  /// That view as (count, rest...): a view too where the strides allow it.
  Tensor table_of(const Tensor& view) const;
  /// The shape of x[items].
  Shape result_shape() const;
  /// From (rows..., rest...) to the result's order of dimensions, and back.
  Tensor to_result(const Tensor& y) const;
  Tensor from_result(const Tensor& y) const;
};
// `rows` is a tensor argument of its own.
inline void for_each_attribute(const Places& places, const auto& visit) {
  visit(places.steps), visit(places.order), visit(places.count), visit(places.result_dim);
}

}  // namespace reprise::autograd
