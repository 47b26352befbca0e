#include "reprise/train/ranks/agreement.h"

namespace reprise::train {

Wishes agree(distributed::ProcessGroup& group, const Wishes& mine) {
  if (group.size() == 1) return mine;
  std::vector<double> word = {double(mine.stops), double(mine.saves), double(mine.writes)};
  word.insert(word.end(), mine.numbers.begin(), mine.numbers.end());
  const std::vector<double> words = of_all_ranks(group, word, "control word");
  Wishes agreed;
  for (auto own = words.begin(); own != words.end(); own += std::ptrdiff_t(word.size())) {
    agreed.stops = agreed.stops || own[0] != 0;
    agreed.saves = agreed.saves || own[1] != 0;
    agreed.writes = agreed.writes || own[2] != 0;
    agreed.numbers.insert(agreed.numbers.end(), own + 3, own + std::ptrdiff_t(word.size()));
  }
  return agreed;
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
