// SharedTensors: weights and averages of which each rank has some elements alone, made whole on rank 0 one at a time.
//
// Note [Rank 0 asks]
// Rank 0 tells by its number which tensor it wants next, and the others send what they have of it, until it tells that it wants
// none any more. So it has room for one tensor; a file is written in its own order; and where rank 0 fails between two of them, for
// a lack of memory or on a full disk, nobody waits for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/ema.h"

namespace reprise::distributed {

/// A tensor itself, or one with the values of a hollow one.
using WholeOf = std::function<Tensor(const Tensor& x)>;

/// Weights and averages that ranks share (ZeRO, stage 3), read on rank 0 one at a time.
class SharedTensors {
 public:
  /// The weights of the model that are hollow now (ZeRO, stage 3), what follows them in it (scatter_averages), and the averages of which `ema`, if there is one, has a part.
  /// All ranks make it at the same time. Both outlive it, and change nothing meanwhile.
  explicit SharedTensors(DataParallel& parallel, const optim::Ema* ema = nullptr);

  /// What this rank has of each: "h.0.attn.qkv.weight", "the average of h.0.attn.qkv.weight".
  nn::NamedTensors own() const;

  /// Runs `read` on rank 0, to which the others send what it asks for by its argument, until it is over. That gives each hollow
  /// tensor that is here as a new one; Error for others. All ranks call it; nothing is sent if none is here. What
  /// `read` throws is thrown on rank 0 alone. What a rank cannot do while another waits for it, for a lack of memory, ends the
  /// world with that as the cause.
  void read_on_rank_0(const std::function<void(const WholeOf& whole)>& read) const;

 private:
  struct Entry {
    std::string name;
    Tensor hollow;
    Tensor own;        // (count)
    size_t parameter;  // its place, which says who has what
  };
  void ask(int64_t entry) const;
  int64_t asked() const;
  void send(size_t entry) const;
  Tensor gather(size_t entry) const;
  Tensor whole(const Tensor& x) const;

  DataParallel& parallel_;
  std::vector<Entry> entries_;
  Tensor asked_ = Tensor::zeros({1}, DType::i64);  // which rank 0 wants next
};

}  // namespace reprise::distributed
