// The pieces of many tensors as the tasks of one loop on the CPU.
#pragma once

#include <algorithm>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {

/// How many pieces a tensor of so many elements is cut into.
inline int64_t pieces_of(int64_t numel) { return (numel + kPiece - 1) / kPiece; }

/// Calls body(tensor, task, begin, end) for each piece of each tensor, where size_of_tensor(t) gives the elements.
template <class SizeOf, class Body>
void for_each_piece(size_t tensors, const SizeOf& size_of_tensor, const Body& body) {
  std::vector<int64_t> first_task(tensors + 1);
  for (size_t t = 0; t < tensors; ++t) first_task[t + 1] = first_task[t] + pieces_of(size_of_tensor(t));
  parallel_tasks(first_task.back(), [&](int64_t task) {
    auto after = std::upper_bound(first_task.begin(), first_task.end(), task);
    size_t tensor = size_t(after - first_task.begin()) - 1;
    int64_t begin = (task - first_task[tensor]) * kPiece;
    body(tensor, task, begin, std::min(size_of_tensor(tensor), begin + kPiece));
  });
}

}  // namespace reprise::kernels
