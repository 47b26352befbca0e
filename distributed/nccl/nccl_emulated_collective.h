// Collective: ncclAllReduce, ncclReduceScatter, ncclAllGather and ncclBroadcast of NCCL's double. Each rank sends what it gives to all others, and
// makes its result of what all have given. NCCL promises no order of a sum, so each run of 64 elements has one of its own, drawn
// at random from its place and the call's number: the same on all ranks.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"

namespace reprise::distributed::emulated {

/// None: the double has no such numbers.
std::optional<DType> dtype_of_nccl(ncclDataType_t type);

class Collective {
 public:
  enum class Kind { sum, scatter_sum, all_gather, broadcast };
  struct Problem {
    Kind kind = Kind::sum;
    int rank = 0, ranks = 1;
    DType dtype = DType::f32;
    size_t count = 0;  ///< of each rank; of a scatter_sum, that each gets
    int root = 0;      ///< of a broadcast
    const void* in = nullptr;
    void* out = nullptr;
    uint64_t number = 0;  ///< of the communicator's collectives, the same on all ranks
    std::string place{};  ///< in the communicator's windows, the same on all ranks
  };
  Collective(std::shared_ptr<Mailbox> mailbox, const Problem& problem);

  /// Asked once the stream has come to it. True once all ranks' numbers are here, and this rank's there; never where a rank
  /// calls another collective, until the communicator is aborted.
  bool is_ready();
  void finish() const;  ///< writes the result, where the communicator was not aborted

 private:
  size_t bytes_of(int rank) const;
  void add_from(size_t first) const;

  std::shared_ptr<Mailbox> mailbox_;
  Problem problem_;
  std::string head_;                                 // which messages of equal calls begin with
  std::vector<std::optional<std::string>> letters_;  // of each rank
  std::vector<std::string> sent_;
};

}  // namespace reprise::distributed::emulated
