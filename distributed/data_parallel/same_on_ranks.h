// Whether ranks have the bits that they should all have: weights drift apart where memory is damaged, a kernel is wrong, or a
// program changes them on one rank alone.
#pragma once

#include "reprise/distributed/process_group.h"
#include "reprise/nn/module.h"

namespace reprise::distributed {

/// CRC-32C of a tensor's elements, in row-major order. `previous`: of what comes before.
uint32_t checksum_of(const Tensor& x, uint32_t previous = 0);

/// Compares the tensors of all ranks by their checksums, and sends 8 bytes for each. A hollow one is compared with none. All ranks call
/// it, with as many tensors of the same names. On all of them a DistributedError of kind `mismatch` names the first tensor
/// that is not the same everywhere, and which ranks have which checksum. `when`: "after step 1000".
void check_same_on_ranks(ProcessGroup& group, const nn::NamedTensors& tensors, const std::string& when);

}  // namespace reprise::distributed
