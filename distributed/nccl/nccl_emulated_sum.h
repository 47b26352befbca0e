// Sum: ncclAllReduce of NCCL's double. Each rank sends all its numbers to all others and adds those of all ranks itself. NCCL
// promises no order, so each run of 64 elements has one of its own, drawn at random from its place and the call's number: the
// same on all ranks.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"

namespace reprise::distributed::emulated {

/// None: the double adds no such numbers.
std::optional<DType> dtype_of_nccl(ncclDataType_t type);

class Sum {
 public:
  struct Problem {
    int rank = 0, ranks = 1;
    DType dtype = DType::f32;
    size_t count = 0;
    const void* in = nullptr;
    void* out = nullptr;
    uint64_t number = 0;  ///< of the communicator's sums, the same on all ranks
  };
  Sum(std::shared_ptr<Mailbox> mailbox, const Problem& problem);

  /// Asked once the stream has come to it. True once all ranks' numbers are here, and this rank's there; never where a rank
  /// adds others, until the communicator is aborted.
  bool is_ready();
  void finish() const;  ///< writes the sum, where the communicator was not aborted

 private:
  std::shared_ptr<Mailbox> mailbox_;
  Problem problem_;
  std::string head_;                                 // which messages of equal sums begin with
  std::vector<std::optional<std::string>> letters_;  // of each rank
  std::vector<std::string> sent_;
};

}  // namespace reprise::distributed::emulated
