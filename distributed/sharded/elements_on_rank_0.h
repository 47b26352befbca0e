// Elements of one tensor of which each rank has a range, sent to rank 0.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/distributed/process_group.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::distributed {

/// Gives rank 0 the elements of this one, (count), in messages of 16 MiB at most: what is on its way at once.
void send_to_rank_0(ProcessGroup& group, const Tensor& own, const std::string& label);

/// What rank 0 does then.
class ElementsOnRank0 {
 public:
  /// `all` (n) is to hold them; rank r has `range_of(r)`.
  ElementsOnRank0(ProcessGroup& group, const Tensor& all,
                  const std::function<optim::ElementRange(int rank)>& range_of, std::string label);

  /// Puts rank 0's `own` and those that the others send in their places. Needs no more room for tensors.
  void receive(const Tensor& own);

 private:
  ProcessGroup& group_;
  std::string label_;
  Tensor place_of_own_;
  std::vector<std::pair<int, Tensor>> places_;  // of the others' messages
  std::vector<Work> works_;
};

}  // namespace reprise::distributed
