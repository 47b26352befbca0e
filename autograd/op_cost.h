// OpCost: what an operation says about the work behind its results. A Function declares it beside its name:
//
//   static constexpr const char* name = "rms_norm";
//   static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
//
// Where it depends on more than shapes, `static OpCost cost_of(const Args&...)` of the call's arguments stands in its place.
//
// Policies of selective recompute decide by it (autograd/recompute/policy.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reprise/core/shape.h"

namespace reprise::autograd {

/// The shapes of an operation's tensor arguments, rank 0 for an absent one, and of its results.
struct OpShapes {
  const std::vector<Shape>& inputs;   ///< in the order of the arguments
  const std::vector<Shape>& results;  ///< in their order
};

/// What an operation says about the work behind its results.
struct OpCost {
  /// The kind of work.
  enum class Kind : uint8_t {
    unknown,    ///< the operation does not say
    moves,      ///< copies or views its arguments
    pointwise,  ///< some ten operations per number of the result: activations, norms, dropout
    reduction,  ///< a small result of many numbers
    product,    ///< a matrix product or a convolution
    attention,  ///< both products of attention, and the softmax between them
  };
  /// Each number of the result is a sum of `length` products; the result has `channels` numbers per token.
  struct Sums {
    int64_t length;    ///< products per number
    int64_t channels;  ///< numbers per token
  };

  Kind kind = Kind::unknown;  ///< of the work
  /// The sums behind the result of attention, or of a product that adds a residual.
  Sums (*sums)(const OpShapes& shapes) = nullptr;
  /// The tensor argument that a product adds to its result, if it is given; none: -1.
  int residual = -1;
  /// For attention, the keys that a query sees at most; 0: all. `sums` does not use it.
  int64_t most_keys = 0;

  static constexpr OpCost moves() { return {.kind = Kind::moves}; }          ///< of that kind
  static constexpr OpCost pointwise() { return {.kind = Kind::pointwise}; }  ///< of that kind
  static constexpr OpCost reduction() { return {.kind = Kind::reduction}; }  ///< of that kind
  static constexpr OpCost product() { return {.kind = Kind::product}; }      ///< of that kind, nothing added
};

}  // namespace reprise::autograd
