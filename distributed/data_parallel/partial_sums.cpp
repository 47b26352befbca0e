#include "reprise/distributed/data_parallel/partial_sums.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::distributed {
namespace {

Tensor sum_of(Tensor left, Tensor right) {
  if (!left.defined() && !right.defined()) return {};
  if (!left.defined()) left = zeros_like(right);
  if (!right.defined()) right = zeros_like(left);
  return left.is_sole_owner() ? left.add_(right) : left + right;  // a hook of the user's may have kept it
}

}  // namespace

void PartialSums::push(int64_t leaf, Tensor gradient) {
  NoGrad guard;
  sums_.push_back({{leaf, 1}, std::move(gradient)});
  auto joins = [&] {
    return order_ == SumOrder::fast || are_siblings(sums_[sums_.size() - 2].node, sums_.back().node);
  };
  while (sums_.size() > 1 && joins()) {
    Sum right = std::move(sums_.back());
    sums_.pop_back();
    Sum& left = sums_.back();
    left.value = sum_of(std::move(left.value), std::move(right.value));
    left.node.size *= 2;
  }
}

TensorList PartialSums::take() {
  TensorList values;
  for (Sum& sum : sums_) values.push_back(std::move(sum.value));
  sums_.clear();
  return values;
}

Tensor PartialSums::take_total() {
  NoGrad guard;
  while (sums_.size() > 1) {  // what no node holds is folded from the right
    Tensor right = std::move(sums_.back().value);
    sums_.pop_back();
    sums_.back().value = sum_of(std::move(sums_.back().value), std::move(right));
  }
  return std::move(take().front());
}

}  // namespace reprise::distributed
