// A group whose other ranks do not exist: what a rank of many would hold, without the many.
//
//   rp::NoCompute no_compute;
//   const auto group = rp::distributed::imagined_group(0, 8);
//   rp::nn::Gpt model(options);
//   rp::distributed::DataParallel parallel(model, *group);  // and a step of it: its memory is a rank's of eight
#pragma once

#include "reprise/distributed/process_group.h"

namespace reprise::distributed {

/// Rank `rank` of `ranks`, on the CPU. Its calls within a NoCompute take the memory that they would take, and return at once;
/// nothing arrives. Outside one a call is a DistributedError. Error unless 0 <= rank < ranks.
std::unique_ptr<ProcessGroup> imagined_group(int rank, int ranks);

}  // namespace reprise::distributed
