// PartialSums: the gradients of one parameter over a rank's micro-batches, added in the order of the tree as they come.
#pragma once

#include "reprise/core/tensor.h"
#include "reprise/distributed/tree.h"

namespace reprise::distributed {

/// A binary counter: at most log2 of the number of micro-batches partial sums at once, and one for each node of the range in
/// the end. A micro-batch that does not use the parameter counts as zeros where another one of the step does.
class PartialSums {
 public:
  /// The gradient of the next micro-batch, `leaf`; undefined if it has none.
  void push(int64_t leaf, Tensor gradient);
  /// One for each of nodes_of the leaves so far, undefined where none of its leaves has a gradient; nothing is left here.
  TensorList take();
  /// The sum over all leaves so far, in the order of the tree; undefined where none has a gradient. Nothing is left here.
  Tensor take_total();

 private:
  struct Sum {
    TreeNode node;
    Tensor value;
  };
  std::vector<Sum> sums_;
};

}  // namespace reprise::distributed
