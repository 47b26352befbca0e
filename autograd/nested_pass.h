// NestedPass: a backward pass that plays a part of the graph of the pass around it, with the same bits.
//
// Note [Same sums]
// The gradient of a tensor that is used inside and outside of the part is a sum, and floating sums depend on
// their order. In one pass over the whole graph the part's operations would add their gradients one by one to
// what has arrived from newer operations. So the nested pass takes the sums over from the pass around it,
// goes on adding, and gives them back.
#pragma once

#include "reprise/autograd/graph_task.h"

namespace reprise::autograd {

/// For a node that runs: its gradients come from a pass of its own.
class NestedPass final : public GraphTask {
 public:
  /// The pass ends at `ends`, whose nodes do not run. What arrives at ends[i] goes to around[i] in the pass
  /// around; both are empty where nothing does.
  /// Without `takes_over` the sums begin with this pass: for hooks that look at what the part gives.
  NestedPass(const std::vector<Edge>& ends, const std::vector<Edge>& around, bool takes_over = true);
  /// After `run`: the sums for the ends. Of several that go to one place, the first has the sum of all; the
  /// others are undefined.
  TensorList take_sums();

  const Edge& place_of(const Edge& asked) const override;

 private:
  bool stops_at(Node* node) const override { return stops_.contains(node); }

  std::unordered_set<Node*> stops_;
  std::vector<std::pair<Edge, Edge>> redirected_;
  std::vector<Edge> sums_;  // an absent one: it is part of an earlier one
};

}  // namespace reprise::autograd
