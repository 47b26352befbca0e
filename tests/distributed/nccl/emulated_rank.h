// One rank of a communicator of NCCL's double that a test asks itself, as no channel would.
#pragma once

#include <gtest/gtest.h>

#include "reprise/core/cuda/runtime.h"
#include "reprise/distributed/nccl/nccl_library.h"

namespace reprise::testing {

struct EmulatedRank {
  const distributed::Nccl& nccl = distributed::nccl_library();
  ncclComm_t communicator = nullptr;
  EmulatedRank(const ncclUniqueId& id, int rank, int ranks) {
    cuda::select_device(rank);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(nccl.comm_init_rank_config(&communicator, ranks, id, rank, &config), ncclInProgress);
    settle();
  }
  ~EmulatedRank() {
    if (communicator) nccl.comm_abort(communicator);
  }
  EmulatedRank(const EmulatedRank&) = delete;
  void settle() {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
      ASSERT_EQ(nccl.comm_get_async_error(communicator, &state), ncclSuccess) << "it is gone";
    EXPECT_EQ(state, ncclSuccess);
  }
};

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_EQ(distributed::nccl_library().get_unique_id(&id), ncclSuccess);
  return id;
}

}  // namespace reprise::testing
