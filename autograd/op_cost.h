// OpCost: what an operation says about the work behind its results. A Function declares it beside its name:
//
//   static constexpr const char* name = "rms_norm";
//   static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
//
// Policies of selective recompute decide by it (autograd/recompute/policy.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reprise/core/shape.h"

namespace reprise::autograd {

/// The shapes of an operation's tensor arguments, rank 0 for an absent one, and of its results.
struct OpShapes {
  const std::vector<Shape>& inputs;
  const std::vector<Shape>& results;
};

struct OpCost {
  enum class Kind : uint8_t {
    unknown,    ///< the operation does not say
    moves,      ///< copies or views its arguments
    pointwise,  ///< some ten operations per number of the result: activations, norms, dropout
    reduction,  ///< a small result of many numbers
    product,    ///< a matrix product or a convolution
    attention,
  };
  /// Each number of the result is a sum of `length` products; the result has `channels` numbers per token.
  struct Sums {
    int64_t length, channels;
  };

  Kind kind = Kind::unknown;
  /// The sums behind the result of attention, or of a product that adds a residual.
  Sums (*sums)(const OpShapes& shapes) = nullptr;
  /// The tensor argument that a product adds to its result, if it is given; none: -1.
  int residual = -1;

  static constexpr OpCost moves() { return {.kind = Kind::moves}; }
  static constexpr OpCost pointwise() { return {.kind = Kind::pointwise}; }
  static constexpr OpCost reduction() { return {.kind = Kind::reduction}; }
  static constexpr OpCost product() { return {.kind = Kind::product}; }
};

}  // namespace reprise::autograd
