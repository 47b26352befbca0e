// OpRecord: one operation of a region's first run: which results it read, what was saved from where, what was
// drawn. A replay finds from these records what need not run.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "reprise/autograd/random_draw.h"
#include "reprise/autograd/recompute/policy.h"
#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// A result of one of the region's operations.
struct ResultId {
  size_t op = 0, index = 0;
  friend auto operator<=>(const ResultId&, const ResultId&) = default;
};

/// Where else an operation is noted.
struct OpPlace {
  size_t trace_end = 0;           ///< of its lines in the region's trace
  uint64_t call = 0, origin = 0;  ///< its provenance, without and with what it drew
};

struct OpRecord {
  const char* name = "";
  autograd::OpCost cost{};              ///< as it declares it
  std::vector<Shape> inputs{};          ///< rank 0 for an absent one
  std::vector<TensorView> results{};    ///< their layouts, without data
  std::vector<ResultId> reads{};        ///< results of the region's earlier operations
  size_t first_slot = 0, end_slot = 0;  ///< of the tensors that it saved
  Decision decision = Decision::recompute;
  bool is_view = false;      ///< its results lie in the memory of its inputs
  bool replaceable = false;  ///< interceptors are asked about it, and results are all it gave
  std::vector<autograd::DrawnGenerator> drawn{};  ///< the generators it drew from, as it left them
  OpPlace place{};
};

/// A layout somewhere in the memory of another tensor, the base. What a replay, a store or hooks put in the
/// place of the base has its values, but maybe other strides, and no bytes around it.
struct RelativeView {
  TensorView layout, base;  ///< without data
  ptrdiff_t offset = 0;     ///< bytes from the base's first element

  RelativeView() = default;
  RelativeView(const TensorView& view, const TensorView& of_base);
  /// Whether it is the base itself.
  bool is_whole() const;
  /// Whether it needs no bytes but the base's.
  bool is_inside() const;
  /// Whether `of` finds the same values in `other`.
  bool fits(const Tensor& other) const;
  Tensor of(const Tensor& other) const;
};

/// Where a saved tensor came from; if it is neither of these, from the inside of `op`.
struct SlotSource {
  size_t op = 0;                     ///< that saved it
  std::optional<ResultId> result{};  ///< of an operation of the region, of itself or an earlier one
  RelativeView of_result{};          ///< the tensor, there
  std::optional<size_t> input{};     ///< an argument of `op` that has all its bytes
  RelativeView of_input{};           ///< the tensor, there
};

}  // namespace reprise::recompute
