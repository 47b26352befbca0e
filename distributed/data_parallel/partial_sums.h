// PartialSums: the gradients of one parameter over a rank's micro-batches, added as they come: in the order of the tree, or one
// after another.
#pragma once

#include "reprise/core/tensor.h"
#include "reprise/distributed/tree.h"

namespace reprise::distributed {

/// How gradients are added: `tree`, so that bits do not depend on the number of ranks; `fast`, one after another within a rank,
/// which takes one set of gradients at most, and between ranks around a ring, or as NCCL adds on GPUs.
enum class SumOrder : uint8_t { tree, fast };

/// With `tree` a binary counter: at most log2 of the number of micro-batches partial sums at once, and one for each node of the range in
/// the end. A micro-batch that does not use the parameter counts as zeros where another one of the step does.
class PartialSums {
 public:
  explicit PartialSums(SumOrder order = SumOrder::tree) : order_(order) {}  ///< of no micro-batch yet

  /// The gradient of the next micro-batch, `leaf`; undefined if it has none.
  void push(int64_t leaf, Tensor gradient);
  /// One for each of nodes_of the leaves so far (with `fast` one of all), undefined where none of its leaves has a gradient; nothing is left here.
  TensorList take();
  /// The sum over all leaves so far, in that order; undefined where none has a gradient. Nothing is left here.
  Tensor take_total();

 private:
  struct Sum {
    TreeNode node;
    Tensor value;
  };
  SumOrder order_;
  std::vector<Sum> sums_{};
};

}  // namespace reprise::distributed
