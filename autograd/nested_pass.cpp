// Where the sums of a nested pass come from and go to.
#include "reprise/autograd/nested_pass.h"

#include <algorithm>

namespace reprise::autograd {

NestedPass::NestedPass(const std::vector<Edge>& ends, const std::vector<Edge>& around, bool takes_over)
    : GraphTask(/*retain_graph=*/false), sums_(ends.size()) {
  std::vector<Edge> outer;
  for (size_t i = 0; i < ends.size(); ++i) {
    outer.push_back(around[i] ? running()->place_of(around[i]) : Edge());
    if (!around[i]) continue;
    auto first = size_t(std::find(outer.begin(), outer.end(), outer[i]) - outer.begin());
    if (first == i) {
      sums_[i] = ends[i];
      stops_.insert(ends[i].node.get());
      Tensor sum = takes_over ? running()->take_sum(outer[i]) : Tensor();
      if (sum.defined()) add_gradient(ends[i], std::move(sum));
    }
    for (const Edge& edge : {ends[i], around[i]}) {  // two, of an input that the part also reached by itself
      stops_.insert(edge.node.get());
      if (edge != sums_[first]) redirected_.emplace_back(edge, sums_[first]);
    }
  }
}

const Edge& NestedPass::place_of(const Edge& asked) const {
  for (const auto& [from, to] : redirected_)
    if (from == asked) return to;
  return asked;
}

TensorList NestedPass::take_sums() {
  TensorList sums;
  for (const Edge& edge : sums_) sums.push_back(edge ? take_sum(edge) : Tensor());
  return sums;
}

}  // namespace reprise::autograd
