#include "reprise/train/ranks/agreement.h"

namespace reprise::train {

Wishes agree(distributed::ProcessGroup& group, const Wishes& mine) {
  if (group.size() == 1) return mine;
  const Tensor word = Tensor::from(std::vector<uint8_t>{uint8_t(mine.stops), uint8_t(mine.saves)}, {2});
  group.all_reduce(word, distributed::ReduceOp::max, "control word").wait();
  return {.stops = word.data<uint8_t>()[0] != 0, .saves = word.data<uint8_t>()[1] != 0};
}

bool any_rank(distributed::ProcessGroup& group, bool mine) { return agree(group, {.stops = mine}).stops; }

std::vector<double> of_all_ranks(distributed::ProcessGroup& group, const std::vector<double>& mine,
                                 const std::string& label) {
  if (group.size() == 1) return mine;
  const int64_t count = int64_t(mine.size());
  const Tensor all = Tensor::zeros({count * group.size()}, DType::f64);
  group.all_gather(all, Tensor::from(mine, {count}), label).wait();
  return all.to_vector<double>();
}

std::vector<double> of_rank_0(distributed::ProcessGroup& group, const std::vector<double>& mine,
                              const std::string& label) {
  if (group.size() == 1) return mine;
  const Tensor x = Tensor::from(mine, {int64_t(mine.size())});
  group.broadcast(x, 0, label).wait();
  return x.to_vector<double>();
}

}  // namespace reprise::train
