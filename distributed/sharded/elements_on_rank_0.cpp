#include "reprise/distributed/sharded/elements_on_rank_0.h"

#include <algorithm>

namespace reprise::distributed {
namespace {

constexpr int64_t most_bytes = int64_t(16) << 20;

// The pieces of a row of elements in which it is sent.
TensorList pieces_of(const Tensor& row) {
  const int64_t most = most_bytes / int64_t(size_of(row.dtype()));
  TensorList pieces;
  for (int64_t begin = 0; begin < row.numel(); begin += most)
    pieces.push_back(row.slice(0, begin, std::min(begin + most, row.numel())));
  return pieces;
}

}  // namespace

void send_to_rank_0(ProcessGroup& group, const Tensor& own, const std::string& label) {
  for (const Tensor& piece : pieces_of(own)) group.send(piece, 0, label).wait();
}

ElementsOnRank0::ElementsOnRank0(ProcessGroup& group, const Tensor& all,
                                 const std::function<optim::ElementRange(int rank)>& range_of,
                                 std::string label)
    : group_(group), label_(std::move(label)) {
  for (int rank = 0; rank < group.size(); ++rank) {
    const optim::ElementRange range = range_of(rank);
    if (range.count() == 0) continue;
    const Tensor part = all.slice(0, range.begin, range.end);
    if (rank == 0)
      place_of_own_ = part;
    else
      for (Tensor& piece : pieces_of(part)) places_.emplace_back(rank, std::move(piece));
  }
  works_.reserve(places_.size());
}

void ElementsOnRank0::receive(const Tensor& own) {
  if (place_of_own_.defined()) place_of_own_.copy_(own);
  for (const auto& [rank, place] : places_) works_.push_back(group_.recv(place, rank, label_));
  for (const Work& work : works_) work.wait();
}

}  // namespace reprise::distributed
